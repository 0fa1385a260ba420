// The socket, which comes back by itself after growing pauses.
import { pageKey } from "./page_key.js";

const PAUSES = [300, 1000, 2000, 4000, 8000, 15000];
const STEADY_AFTER = 5000;

export class Connection {
  constructor({ onFrame, onPhase }) {
    this.onFrame = onFrame;
    this.onPhase = onPhase;
    this.failures = 0;
    addEventListener("online", () => this.tryNow());
    addEventListener("offline", () => this.restart());
    addEventListener("visibilitychange", () => !document.hidden && this.tryNow());
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  open() {
    clearTimeout(this.timer);
    this.onPhase({ phase: "connecting", failures: this.failures });
    const socket = new WebSocket(`ws://${location.host}/chat/socket?key=${pageKey()}`);
    this.socket = socket;
    let steady;
    socket.onopen = () => {
      // One that breaks again at once has not come back.
      steady = setTimeout(() => (this.failures = 0), STEADY_AFTER);
      this.onPhase({ phase: "open", failures: this.failures });
    };
    socket.onmessage = (event) => this.socket === socket && this.onFrame(JSON.parse(event.data));
    socket.onclose = () => {
      clearTimeout(steady);
      if (this.socket === socket) this.comeBack();
    };
  }

  send(frame) {
    if (this.isOpen) this.socket.send(JSON.stringify(frame));
    return this.isOpen;
  }

  // A line that swallows what is sent looks open: let go of it and dial again.
  restart() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.comeBack();
  }

  tryNow() {
    if (this.timer) this.open();
  }

  async comeBack() {
    this.socket = null;
    const pause = PAUSES[Math.min(this.failures, PAUSES.length - 1)] * (0.75 + Math.random() / 2);
    this.failures += 1;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = null;
      this.open();
    }, pause);
    this.onPhase({ phase: "lost", failures: this.failures, letIn: true });
    // A failed handshake does not tell why; the page itself does.
    if (this.failures > 1 && (await answersUnauthorized())) this.onPhase({ phase: "lost", failures: this.failures, letIn: false });
  }
}

async function answersUnauthorized() {
  try {
    return (await fetch(`/chat?key=${pageKey()}`, { method: "HEAD", cache: "no-store" })).status === 401;
  } catch {
    return false;
  }
}
