// Code as it is, also where it tries to look like something else.
import { Component, html } from "./html.js";
import { icons } from "./icons.js";

// Characters that turn the direction of what follows: in code they are a known trick, so they are shown by name.
const BIDI = /([\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])/;
const LONGEST_SHOWN = 1_000_000;
const SECONDS_TO_READ = 1600;

export function withVisibleBidi(code) {
  return code.split(BIDI).map((piece, index) => (index % 2 ? html`<span class="bidi">${codePoint(piece)}</span>` : piece));
}

export class CodeBlock extends Component {
  copy = async () => {
    try {
      await navigator.clipboard.writeText(this.props.code);
      this.say("Copied");
    } catch {
      this.say("Select and copy by hand");
    }
  };

  say(note) {
    this.setState({ note });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setState({ note: null }), SECONDS_TO_READ);
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  render({ code, language }, { note }) {
    const shown = code.slice(0, LONGEST_SHOWN).replace(/\n$/, "");
    return html`
      <figure class="code">
        <figcaption>
          <bdi>${language || "text"}</bdi>
          <button type="button" class="quiet" onClick=${this.copy} aria-label=${note ?? "Copy code"}>
            ${note ? icons.check() : icons.copy()}<span>${note ?? "Copy"}</span>
          </button>
        </figcaption>
        <pre tabindex="0" dir="ltr"><code>${withVisibleBidi(shown)}</code></pre>
        ${code.length > LONGEST_SHOWN && html`<p class="aside">Only the beginning is shown; copying takes all of it.</p>`}
      </figure>`;
  }
}

function codePoint(char) {
  return `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
