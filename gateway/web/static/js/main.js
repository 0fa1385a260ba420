// Ties the page together: frames come in, people act, and the page is drawn anew.
import { Connection } from "./connection.js";
import { Drafts } from "./drafts.js";
import { html, render } from "./html.js";
import { Outbox } from "./outbox.js";
import { Page } from "./page.js";
import { takePageKey } from "./page_key.js";
import { heard, nothing, opened, stored } from "./state.js";

const ANSWER_DUE = 10_000;
const LONGEST_PAUSE = 15_000;
const ANNOUNCED_CHARACTERS = 600;
const NAME = /^[A-Za-z0-9_-]{1,64}$/;

const narrow = matchMedia("(max-width: 760px)");
const systemDark = matchMedia("(prefers-color-scheme: dark)");

let state = nothing;
const look = { drawer: false, dialog: null, announced: "", saidCount: 0, narrow: narrow.matches, dark: isDark() };
const drafts = new Drafts(sessionStorage);

const outbox = new Outbox(localStorage, draw);
const connection = new Connection({ onFrame: hear, onPhase: hearPhase });

function hearPhase(phase) {
  state = { ...state, connection: phase };
  sending.stop();
  if (phase.phase === "open") {
    connection.send({ type: "open", conversation: state.conversation });
    sending.go();
  }
  draw();
}

function hear(frame) {
  switch (frame.type) {
    case "stored":
      takeStored(frame.id);
      break;
    case "refused":
      takeRefused(frame);
      break;
    case "unstored":
      sending.later(frame);
      break;
    default:
      announce(frame);
      state = heard(state, frame);
      forgetSent(frame.entries ?? []);
  }
  draw();
}

function takeStored(id) {
  const message = outbox.take(id);
  if (message) state = stored(state, message);
  sending.next();
}

function takeRefused({ id, reason }) {
  const message = outbox.take(id);
  if (message && !drafts.of(message.conversation)) drafts.set(message.conversation, message.text);
  else if (message?.conversation === state.conversation) state = { ...state, unanswered: [...state.unanswered, message] };
  state = { ...state, problem: `Not sent: ${reason}` };
  sending.next();
}

// What the transcript has needs no sending, even if the word that it was stored got lost on the way.
function forgetSent(entries) {
  for (const { message_id } of entries) if (message_id && outbox.messages.some((one) => one.id === message_id)) takeStored(message_id);
}

// Said before the frame is taken in: what is new is told apart from what was there.
function announce(frame) {
  if (frame.conversation !== state.conversation) return;
  if (frame.type === "began" || (frame.type === "snapshot" && frame.live && !state.live)) look.announced = "The answer is being written.";
  const spoken = newEntries(frame).filter((one) => one.role !== "user" && one.role !== "tool" && one.text);
  if (spoken.length) look.announced = spoken.map((one) => one.text.slice(0, ANNOUNCED_CHARACTERS)).join("\n");
}

function newEntries({ type, session, entries }) {
  if (type === "entries") return entries;
  if (type !== "snapshot" || !state.loaded) return [];
  const known = new Set(session === state.session ? state.entries.map((one) => one.id) : []);
  return entries.filter((one) => !known.has(one.id));
}

// One message at a time, in order, until it is stored: the next is sent when this one is safe.
const sending = {
  underWay: null,
  failures: 0,
  go() {
    const message = outbox.first;
    if (this.underWay || this.pause || !message || !connection.isOpen) return;
    this.underWay = message.id;
    this.due = setTimeout(() => connection.restart(), ANSWER_DUE);
    connection.send({ type: "say", conversation: message.conversation, id: message.id, text: message.text });
  },
  stop() {
    this.underWay = null;
    clearTimeout(this.due);
    clearTimeout(this.pause);
    this.pause = null;
  },
  next() {
    this.stop();
    this.failures = 0;
    this.go();
  },
  later({ id, reason }) {
    this.stop();
    outbox.messages = outbox.messages.map((one) => (one.id === id ? { ...one, reason } : one));
    this.pause = setTimeout(() => {
      this.pause = null;
      this.go();
    }, Math.min(500 * 2 ** this.failures++, LONGEST_PAUSE));
  },
};

const actions = {
  currentDraft: () => drafts.of(state.conversation),
  draft(text) {
    drafts.set(state.conversation, text);
    draw();
  },
  send() {
    const text = actions.currentDraft();
    if (!text.trim() || text.length > state.longest) return;
    drafts.set(state.conversation, "");
    actions.say(text);
  },
  say(text) {
    const message = { conversation: state.conversation, id: newName(), text, at: new Date().toISOString() };
    const isKept = outbox.add(message);
    state = { ...state, problem: isKept ? null : "This browser has no room to keep the message: leave the page open until it is sent." };
    look.announced = "";
    look.saidCount += 1;
    sending.go();
    draw();
  },
  press: ({ nonce }) => ask({ type: "press", conversation: state.conversation, id: newName(), nonce }),
  putBack(message) {
    state = { ...state, unanswered: state.unanswered.filter((one) => one.id !== message.id) };
    const draft = actions.currentDraft();
    actions.draft(draft ? `${draft}\n${message.text}` : message.text);
  },
  dismiss() {
    state = { ...state, problem: null };
    draw();
  },
  showEarlier: () => connection.send({ type: "earlier", conversation: state.conversation, before: state.entries[0].seq }),
  connectNow: () => connection.tryNow(),
  startNew() {
    location.hash = newName();
    actions.closeDrawer();
  },
  askName: (one) => show({ dialog: { kind: "name", one } }),
  askDelete: (one) => show({ dialog: { kind: "delete", one } }),
  closeDialog: () => show({ dialog: null }),
  rename(title) {
    ask({ type: "rename", conversation: look.dialog.one.conversation, title });
    actions.closeDialog();
  },
  archive(one) {
    ask({ type: "archive", conversation: one.conversation, archived: !one.archived });
    if (!one.archived && one.conversation === state.conversation) actions.startNew();
  },
  delete() {
    const { conversation } = look.dialog.one;
    ask({ type: "delete", conversation });
    drafts.set(conversation, "");
    actions.closeDialog();
    if (conversation === state.conversation) actions.startNew();
  },
  openDrawer: () => show({ drawer: true }),
  closeDrawer: () => show({ drawer: false }),
  turnTheme() {
    const theme = look.dark ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("turngate.theme", theme);
    } catch {
      // The choice holds until the page is left.
    }
    show({ dark: isDark() });
  },
};

function ask(frame) {
  if (!connection.send(frame)) state = { ...state, problem: "Not connected: try it again when the gateway answers." };
}

// At once: the next key that is pressed may be meant for what is shown.
function show(change) {
  Object.assign(look, change);
  drawNow();
}

function isDark() {
  return (document.documentElement.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark";
}

function newName() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function openFromAddress() {
  const wanted = location.hash.slice(1);
  if (!NAME.test(wanted)) {
    history.replaceState(null, "", `#${lastUsed() ?? newName()}`);
    return openFromAddress();
  }
  remember(wanted);
  look.announced = "";
  state = opened(state, wanted);
  connection.send({ type: "open", conversation: wanted });
  draw();
}

function lastUsed() {
  const found = localStorage.getItem("turngate.last") ?? "";
  return NAME.test(found) ? found : null;
}

function remember(conversation) {
  try {
    localStorage.setItem("turngate.last", conversation);
  } catch {
    // Then the next visit starts with a new conversation.
  }
}

// A long answer takes long to draw: the next drawing waits as long as the last ones took, so that the page stays usable.
let isDrawing = false;
let cost = 0;

function draw() {
  if (isDrawing) return;
  isDrawing = true;
  setTimeout(() => requestAnimationFrame(drawLater), cost > 8 ? Math.min(4 * cost, 1000) : 0);
}

function drawLater() {
  isDrawing = false;
  drawNow();
}

function drawNow() {
  const start = performance.now();
  const { conversation } = state;
  document.title = `${state.name || "Chat"} · Turngate`;
  render(
    html`<${Page} state=${state} unsent=${outbox.of(conversation)} look=${look} actions=${actions} />`,
    document.getElementById("app"),
  );
  cost = performance.now() - start;
}

narrow.addEventListener("change", () => show({ narrow: narrow.matches, drawer: false }));
systemDark.addEventListener("change", () => show({ dark: isDark() }));
addEventListener("keydown", (event) => event.key === "Escape" && look.drawer && actions.closeDrawer());
addEventListener("hashchange", openFromAddress);
takePageKey();
openFromAddress();
connection.open();
