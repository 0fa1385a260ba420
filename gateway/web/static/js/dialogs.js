// The two questions the page asks: a new name, and whether something may be deleted for good.
import { Component, html } from "./html.js";

const LONGEST_NAME = 128;

class Dialog extends Component {
  componentDidMount() {
    this.box.showModal();
  }

  render({ title, children, onClose }) {
    return html`
      <dialog ref=${(box) => (this.box = box)} aria-labelledby="question" onClose=${onClose}>
        <h2 id="question">${title}</h2>
        ${children}
      </dialog>`;
  }
}

export class NameDialog extends Component {
  state = { name: this.props.one.titled ? this.props.one.name : "" };

  save = () => this.props.onDone(this.state.name.trim());

  press = (event) => {
    if (event.key === "Enter" && !event.isComposing) this.save();
  };

  render({ one, onClose }, { name }) {
    return html`
      <${Dialog} title="Rename this conversation" onClose=${onClose}>
        <label>Name<input type="text" dir="auto" autofocus value=${name} maxlength=${LONGEST_NAME} placeholder=${one.name}
          onInput=${(event) => this.setState({ name: event.target.value })} onKeyDown=${this.press} /></label>
        <p class="aside">Leave it empty to have it called by what was said last.</p>
        <div class="choices">
          <button type="button" onClick=${onClose}>Cancel</button>
          <button type="button" class="main" onClick=${this.save}>Save</button>
        </div>
      <//>`;
  }
}

export const DeleteDialog = ({ one, onDone, onClose }) => html`
  <${Dialog} title="Delete this conversation?" onClose=${onClose}>
    <p>Everything that was said in “<bdi>${one.name}</bdi>” is deleted for good, also what came before a <code>/new</code>.</p>
    <div class="choices">
      <button type="button" autofocus onClick=${onClose}>Cancel</button>
      <button type="button" class="main danger" onClick=${onDone}>Delete</button>
    </div>
  <//>`;
