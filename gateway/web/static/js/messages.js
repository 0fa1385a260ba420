// The conversation itself: what was said, the answer that is being written, and what has not been sent.
import { Component, html } from "./html.js";
import { CodeBlock } from "./code.js";
import { directionOf } from "./direction.js";
import { icons } from "./icons.js";
import { Markdown } from "./markdown.js";
import { rowsOf } from "./rows.js";
import { inFull, timeOfDay } from "./times.js";

// A reader this close to the end wants to see what comes.
const NEAR_THE_END = 80;
const LONG_MESSAGE = 4000;
const OFFERED = ["help", "status"];

export class Messages extends Component {
  state = { atEnd: true };

  componentDidMount() {
    this.watcher = new ResizeObserver(() => this.keepAtEnd());
    this.watcher.observe(this.box);
    this.watcher.observe(this.column);
  }

  componentWillUnmount() {
    this.watcher.disconnect();
  }

  getSnapshotBeforeUpdate(before) {
    const older = before.state.entries[0]?.seq > this.props.state.entries[0]?.seq;
    return older ? this.box.scrollHeight - this.box.scrollTop : null;
  }

  componentDidUpdate(before, _, fromEnd) {
    const { state, saidCount } = this.props;
    if (before.state.conversation !== state.conversation || before.saidCount !== saidCount) this.goToEnd();
    else if (fromEnd !== null) this.box.scrollTop = this.box.scrollHeight - fromEnd;
    else this.keepAtEnd();
  }

  keepAtEnd() {
    if (this.state.atEnd) this.box.scrollTop = this.box.scrollHeight;
  }

  goToEnd = () => {
    this.setState({ atEnd: true });
    this.box.scrollTop = this.box.scrollHeight;
  };

  look = () => {
    const { scrollHeight, scrollTop, clientHeight } = this.box;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_THE_END;
    if (atEnd !== this.state.atEnd) this.setState({ atEnd });
  };

  render({ state, unsent, actions }, { atEnd }) {
    const { entries, live, waiting, questions, unanswered, loaded, earlier } = state;
    const isEmpty = loaded && !entries.length && !live && !waiting.length && !unsent.length && !unanswered.length;
    return html`
      <div class="messages" ref=${(box) => (this.box = box)} onScroll=${this.look} tabindex="0" role="log"
        aria-label="Messages" aria-live="off">
        <div class="column" ref=${(column) => (this.column = column)}>
          ${isEmpty && html`<${Welcome} state=${state} actions=${actions} />`}
          ${loaded && html`<${EarlierNote} earlier=${earlier} session=${state.session} actions=${actions} />`}
          <${Transcript} key=${state.session} entries=${entries} />
          ${live && html`<${LiveTurn} live=${live} isAsking=${questions.length > 0} key="live" />`}
          ${questions.map((one) => html`<${Question} key=${one.id} question=${one} actions=${actions} />`)}
          ${unanswered.map((one) => html`<${Unanswered} key=${one.id} message=${one} actions=${actions} />`)}
          ${waiting.map((one) => html`<${Pending} key=${one.id} message=${one} status="Queued" />`)}
          ${unsent.map((one) => html`<${Pending} key=${one.id} message=${one} status=${unsentStatus(state, one)} />`)}
        </div>
      </div>
      <button type="button" class="to-end" hidden=${atEnd} onClick=${this.goToEnd}>${icons.down()}<span>To the newest</span></button>`;
  }
}

function unsentStatus({ connection }, { reason }) {
  if (reason) return `Not stored yet (${reason}). Trying again`;
  return connection.phase === "open" ? "Sending" : "Not sent yet: it goes out when the connection is back";
}

class Transcript extends Component {
  shouldComponentUpdate(next) {
    return next.entries !== this.props.entries;
  }

  render({ entries }) {
    return rowsOf(entries).map((row) => html`<${ROWS[row.kind]} key=${row.key} ...${row} />`);
  }
}

const ROWS = {
  day: ({ day }) => html`<h2 class="day"><span>${day}</span></h2>`,
  said: ({ entry }) => html`<${Bubble} text=${entry.text} at=${entry.at} files=${entry.files} label="You" />`,
  typed: ({ entry }) => html`<${Bubble} text=${entry.text} at=${entry.at} files=${entry.files} label="You" command />`,
  answer: ({ entry }) => html`
    <article class="answer" aria-label="Answer">
      <${Markdown} text=${entry.text} />
      <${Files} names=${entry.files} />
      <footer><${Time} at=${entry.at} /></footer>
    </article>`,
  output: ({ entry }) => html`<${Card} kind="output" label="Turngate" entry=${entry} />`,
  notice: ({ entry }) => html`
    <${Card} kind="notice" label=${entry.origin === "delivery" ? "Delivered" : "Notice"} entry=${entry} />`,
  summary: ({ entry }) => html`
    <details class="card summary"><summary>Summary of what was said before</summary><${Markdown} text=${entry.text} /></details>`,
  steps: ({ steps }) => html`<${Steps} steps=${steps} />`,
};

function Card({ kind, label, entry }) {
  return html`
    <article class=${`card ${kind}`} aria-label=${label}>
      <header><span>${label}</span><${Time} at=${entry.at} /></header>
      <${Markdown} text=${entry.text} />
      <${Files} names=${entry.files} />
    </article>`;
}

class Bubble extends Component {
  render({ text, at, label, command, status, files = [], children }, { whole }) {
    const isLong = text.length > LONG_MESSAGE && !whole;
    return html`
      <article class=${`said ${command ? "typed" : ""}`} aria-label=${label}>
        <div class="bubble" dir=${directionOf(text)}>${isLong ? `${text.slice(0, LONG_MESSAGE)}…` : text}</div>
        ${isLong &&
        html`<button type="button" class="quiet" onClick=${() => this.setState({ whole: true })}>
          Show all ${text.length.toLocaleString()} characters
        </button>`}
        <${Files} names=${files} />
        <footer>${status && html`<span class="status">${status}</span>`}<${Time} at=${at} />${children}</footer>
      </article>`;
  }
}

const Pending = ({ message, status }) => html`
  <div class="pending"><${Bubble} text=${message.text} at=${message.at} label=${`You, ${status}`} status=${status}
    command=${message.text.startsWith("/")} /></div>`;

const Unanswered = ({ message, actions }) => html`
  <div class="pending"><${Bubble} text=${message.text} at=${message.at} label="You, not taken" status="Not taken into the conversation">
    <button type="button" class="quiet" onClick=${() => actions.putBack(message)}>Edit it again</button>
  <//></div>`;

function LiveTurn({ live, isAsking }) {
  const { text, tools, notes, thinking } = live;
  const doing = isAsking ? "Waiting for your answer" : thinking ? "Thinking" : tools.some((one) => one.status === "started") ? "Working" : "Writing";
  return html`
    <article class="answer live" aria-label="Answer being written" aria-busy="true">
      ${tools.length > 0 && html`<${Steps} steps=${tools} />`}
      ${text && html`<${Markdown} text=${text} />`}
      ${notes.length > 0 && html`<${Files} names=${notes.map((note) => note.name)} />`}
      <p class="doing"><span class="dots" aria-hidden="true"><i /><i /><i /></span>${doing}</p>
    </article>`;
}

function Question({ question, actions }) {
  return html`
    <section class="card question" aria-label="Question">
      ${question.text && html`<${Markdown} text=${question.text} />`}
      <div class="options">
        ${question.options.map(
          (option) => html`<button type="button" key=${option.nonce} onClick=${() => actions.press(option)}>
            <bdi>${option.label}</bdi>
          </button>`,
        )}
      </div>
    </section>`;
}

const STEP_SIGN = {
  started: () => html`<span class="spinner" />`,
  done: icons.check,
  failed: icons.cross,
  ran: () => html`<span class="spot" />`,
};
const STEP_WORD = { started: "running", done: "done", failed: "failed", ran: "" };

function Steps({ steps }) {
  return html`<ol class="steps" aria-label="Steps">${steps.map((step) => html`<li key=${step.id}><${Step} ...${step} /></li>`)}</ol>`;
}

function Step({ name, title, status, input, output }) {
  const hasInput = input && input !== "{}";
  const line = html`
    <span class=${`sign ${status}`}>${STEP_SIGN[status]()}</span>
    <bdi class="name">${title || name}</bdi>
    ${title && title !== name && html`<bdi class="tool">${name}</bdi>`}
    <span class="word">${STEP_WORD[status]}</span>`;
  if (!hasInput && !output) return html`<div class="step">${line}</div>`;
  return html`
    <details class="step">
      <summary>${line}<span class="fold">${icons.chevron()}</span></summary>
      ${hasInput && html`<${CodeBlock} code=${pretty(input)} language="input" />`}
      ${output && html`<${CodeBlock} code=${output} language="output" />`}
    </details>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Files({ names }) {
  return names.length > 0 && html`<ul class="files">${names.map((name) => html`<li><bdi>${name}</bdi></li>`)}</ul>`;
}

const Time = ({ at }) => html`<time datetime=${at} title=${inFull(at)}>${timeOfDay(at)}</time>`;

function EarlierNote({ earlier, session, actions }) {
  if (earlier === "more") {
    return html`<p class="earlier"><button type="button" onClick=${actions.showEarlier}>Show earlier messages</button></p>`;
  }
  if (earlier !== "elsewhere") return null;
  return html`<p class="earlier">Older messages are kept, but not shown here: <code>turngate sessions show ${session}</code></p>`;
}

function Welcome({ state, actions }) {
  const offered = state.commands.filter((one) => OFFERED.includes(one.name));
  return html`
    <section class="welcome">
      <img src="/static/icon.svg" alt="" width="44" height="44" />
      <h2>What can I do for you?</h2>
      <p>Write below; the answer appears here as it is written. Everything said is kept, and shows again after a reload.</p>
      <div class="offers">
        ${offered.map(
          (one) => html`<button type="button" onClick=${() => actions.say(`/${one.name}`)}>
            <code>/${one.name}</code><span>${one.help}</span>
          </button>`,
        )}
      </div>
    </section>`;
}
