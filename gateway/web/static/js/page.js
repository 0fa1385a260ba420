// The whole page as a function of what is known.
import { html } from "./html.js";
import { Composer } from "./composer.js";
import { DeleteDialog, NameDialog } from "./dialogs.js";
import { icons } from "./icons.js";
import { Messages } from "./messages.js";
import { Sidebar } from "./sidebar.js";

export function Page({ state, unsent, look, actions }) {
  const { dialog } = look;
  return html`
    <div class="page">
      <${Sidebar} state=${state} isOpen=${look.drawer} isDrawer=${look.narrow} actions=${actions} />
      <main inert=${look.narrow && look.drawer}>
        <header class="top">
          <button type="button" class="plain list" aria-label="Show conversations" aria-expanded=${look.drawer} onClick=${actions.openDrawer}>${icons.menu()}</button>
          <h1><bdi>${state.name || "Turngate"}</bdi></h1>
          <${ConnectionSign} connection=${state.connection} />
          <button type="button" class="plain" aria-label=${look.dark ? "Use light colours" : "Use dark colours"} onClick=${actions.turnTheme}>
            ${look.dark ? icons.sun() : icons.moon()}
          </button>
        </header>
        <${ConnectionNote} connection=${state.connection} actions=${actions} />
        <${Messages} state=${state} unsent=${unsent} saidCount=${look.saidCount} actions=${actions} />
        <${Composer} conversation=${state.conversation} commands=${state.commands} longest=${state.longest}
          isAnswering=${Boolean(state.live)} problem=${state.problem} actions=${actions} />
      </main>
      <div class="unseen" role="status" aria-live="polite">${look.announced}</div>
      ${dialog?.kind === "name" && html`<${NameDialog} one=${dialog.one} onDone=${actions.rename} onClose=${actions.closeDialog} />`}
      ${dialog?.kind === "delete" && html`<${DeleteDialog} one=${dialog.one} onDone=${actions.delete} onClose=${actions.closeDialog} />`}
    </div>`;
}

const WORDS = { open: "Connected", connecting: "Connecting", lost: "Not connected" };

const ConnectionSign = ({ connection: { phase } }) => html`
  <p class=${`connection ${phase}`} role="status"><span class="dot" aria-hidden="true" /><span class="word">${WORDS[phase]}</span></p>`;

function ConnectionNote({ connection: { phase, failures, letIn }, actions }) {
  // A pause of a moment is no news.
  if (phase === "open" || failures < 2) return null;
  if (letIn === false) {
    return html`<p class="connection-note" role="alert">This browser is no longer let in.
      Run <code>turngate web link</code> and open the link it prints; what you have written here is kept.</p>`;
  }
  return html`<p class="connection-note" role="alert"><span>The gateway does not answer. What you write is kept here and sent when it is back.</span>
    <button type="button" onClick=${actions.connectNow}>Try now</button></p>`;
}
