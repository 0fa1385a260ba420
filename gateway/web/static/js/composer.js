// Where people write. Enter sends; "/" at the start opens the list of commands.
import { directionOf } from "./direction.js";
import { Component, html } from "./html.js";
import { icons } from "./icons.js";

const LONG_TEXT = 5000;

export function matching(commands, text) {
  const typed = /^\/([a-z0-9_-]*)$/i.exec(text)?.[1].toLowerCase();
  return typed === undefined ? [] : commands.filter((one) => one.name.startsWith(typed));
}

export class Composer extends Component {
  state = { chosen: 0, closed: false };

  componentDidMount() {
    this.fit();
    this.invite();
  }

  // On a phone this would bring up the keyboard over half of the page.
  invite() {
    if (matchMedia("(hover: hover)").matches) this.area.focus({ preventScroll: true });
  }

  componentDidUpdate(before) {
    this.fit();
    if (before.conversation !== this.props.conversation) this.invite();
    document.querySelector(".offered [aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  fit() {
    // Measuring a very long text takes seconds, and its field is as high as it may be anyway.
    if (this.area.value.length > LONG_TEXT) {
      this.area.style.height = "100vh";
      return;
    }
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight}px`;
  }

  offered(text) {
    return this.state.closed ? [] : matching(this.props.commands, text);
  }

  write = (event) => {
    this.props.actions.draft(event.target.value);
    this.setState({ chosen: 0, closed: false });
  };

  press = (event) => {
    if (event.isComposing) return;
    const offered = this.offered(this.area.value);
    if (offered.length && this.pressInList(event, offered)) {
      event.preventDefault();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.send();
    }
  };

  // Whether the key was for the list of commands.
  pressInList(event, offered) {
    const chosen = Math.min(this.state.chosen, offered.length - 1);
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      this.setState({ chosen: (chosen + move + offered.length) % offered.length });
      return true;
    }
    if (event.key === "Escape") {
      this.setState({ closed: true });
      return true;
    }
    const isWhole = this.area.value === `/${offered[chosen].name}`;
    if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && !event.shiftKey && !isWhole)) {
      this.complete(offered[chosen]);
      return true;
    }
    return false;
  }

  complete({ name, arguments: hint }) {
    this.props.actions.draft(`/${name}${hint ? " " : ""}`);
    this.setState({ closed: true });
    this.area.focus();
  }

  send = () => {
    if (this.area.value.trim()) this.props.actions.send();
    this.area.focus();
  };

  render({ isAnswering, problem, longest, actions }, { chosen }) {
    // Not a property: those are as old as the last drawing of the page, and would undo what was typed since.
    const draft = actions.currentDraft();
    const offered = this.offered(draft);
    const current = Math.min(chosen, offered.length - 1);
    const over = draft.length - longest;
    const complaint = over > 0 ? `${over.toLocaleString()} characters too many: a message has at most ${longest.toLocaleString()}` : problem;
    return html`
      <div class="composer">
        ${offered.length > 0 &&
        html`<ul class="offered" id="commands" role="listbox" aria-label="Commands">
          ${offered.map(
            (one, index) => html`
              <li key=${one.name} id=${`command-${one.name}`} role="option" aria-selected=${index === current}
                onMouseDown=${(event) => event.preventDefault()} onClick=${() => this.complete(one)}>
                <code><b>/${one.name}</b>${one.arguments && html`<span> ${one.arguments}</span>`}</code><span class="help">${one.help}</span>
              </li>`,
          )}
        </ul>`}
        ${complaint && html`<p class="problem" role="alert"><span>${complaint}</span>
          ${over <= 0 && html`<button type="button" class="quiet" onClick=${actions.dismiss} aria-label="Dismiss">${icons.close()}</button>`}</p>`}
        <div class="field">
          <textarea ref=${(area) => (this.area = area)} rows="1" dir=${directionOf(draft)} value=${draft} onInput=${this.write} onKeyDown=${this.press}
            placeholder="Write a message" aria-label="Message" aria-autocomplete="list" aria-describedby="keys"
            aria-controls=${offered.length ? "commands" : undefined}
            aria-activedescendant=${offered.length ? `command-${offered[current].name}` : undefined} />
          <div class="buttons">
            ${isAnswering && html`<button type="button" class="stop" onClick=${() => actions.say("/stop")}>${icons.stop()}<span>Stop</span></button>`}
            <button type="button" class="send" onClick=${this.send} disabled=${!draft.trim() || over > 0} aria-label="Send">${icons.send()}</button>
          </div>
        </div>
        <p class="keys" id="keys"><kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> starts a new line, <kbd>/</kbd> lists the commands</p>
      </div>`;
  }
}
