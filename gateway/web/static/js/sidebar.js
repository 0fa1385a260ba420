// The list of conversations; on a phone it slides in from the side.
import { Component, html } from "./html.js";
import { icons } from "./icons.js";
import { briefly, inFull } from "./times.js";

export class Sidebar extends Component {
  // What is behind the drawer cannot be reached meanwhile, so the keyboard goes in with it and comes back after.
  componentDidUpdate(before) {
    const { isOpen, isDrawer } = this.props;
    if (isOpen && !before.isOpen) this.box.querySelector("button").focus();
    if (!isOpen && before.isOpen && isDrawer) document.querySelector(".top .list").focus();
  }

  render({ state, isOpen, isDrawer, actions }) {
    const all = state.conversations ?? [];
    const isNew = state.conversations && !all.some((one) => one.conversation === state.conversation);
    const fresh = { conversation: state.conversation, name: state.name };
    const archived = all.filter((one) => one.archived);
    const item = (one) => html`
      <${Item} key=${one.conversation} one=${one} isCurrent=${one.conversation === state.conversation} actions=${actions} />`;
    return html`
      <div class=${`shade ${isOpen ? "shown" : ""}`} onClick=${actions.closeDrawer} />
      <nav class=${`sidebar ${isOpen ? "shown" : ""}`} aria-label="Conversations" inert=${isDrawer && !isOpen} ref=${(box) => (this.box = box)}>
        <header>
          <img src="/static/icon.svg" alt="" width="28" height="28" /><strong>Turngate</strong>
          ${isDrawer && html`<button type="button" class="plain" aria-label="Close the list" onClick=${actions.closeDrawer}>${icons.close()}</button>`}
        </header>
        <button type="button" class="new" onClick=${actions.startNew}>${icons.plus()}<span>New conversation</span></button>
        <ul>${isNew && item(fresh)}${all.filter((one) => !one.archived).map(item)}</ul>
        ${archived.length > 0 &&
        html`<details class="archived">
          <summary>${icons.chevron()}Archived <span>${archived.length}</span></summary>
          <ul>${archived.map(item)}</ul>
        </details>`}
      </nav>`;
  }
}

class Item extends Component {
  // The menu is in the top layer, so that the scrolling list does not cut it off; it is put beside its button by hand.
  place = (event) => {
    if (event.newState !== "open") return;
    const { bottom, right, top } = this.button.getBoundingClientRect();
    const below = bottom + this.menu.offsetHeight + 8 < innerHeight;
    this.menu.style.top = `${below ? bottom + 4 : top - this.menu.offsetHeight - 4}px`;
    this.menu.style.left = `${Math.max(8, Math.min(right - this.menu.offsetWidth, innerWidth - this.menu.offsetWidth - 8))}px`;
    this.menu.querySelector("button").focus();
  };

  press = (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const buttons = [...this.menu.querySelectorAll("button")];
    const next = buttons.indexOf(document.activeElement) + move;
    buttons.at(next % buttons.length).focus();
  };

  choose(action) {
    this.menu.hidePopover();
    action(this.props.one);
  }

  render({ one, isCurrent, actions }) {
    const id = `menu-${one.conversation}`;
    return html`
      <li class=${isCurrent ? "current" : ""}>
        <a href=${`#${one.conversation}`} aria-current=${isCurrent ? "page" : undefined} onClick=${actions.closeDrawer}>
          <bdi>${one.name}</bdi>${one.at && html`<time datetime=${one.at} title=${inFull(one.at)}>${briefly(one.at)}</time>`}
        </a>
        ${one.at &&
        html`<button type="button" class="plain more" ref=${(button) => (this.button = button)} popovertarget=${id} aria-haspopup="menu"
            aria-label=${`More for ${one.name}`}>${icons.more()}</button>
          <div class="menu" id=${id} popover="auto" role="menu" ref=${(menu) => (this.menu = menu)} onToggle=${this.place} onKeyDown=${this.press}>
            <button type="button" role="menuitem" onClick=${() => this.choose(actions.askName)}>Rename</button>
            <button type="button" role="menuitem" onClick=${() => this.choose(actions.archive)}>${one.archived ? "Take back" : "Archive"}</button>
            <button type="button" role="menuitem" class="danger" onClick=${() => this.choose(actions.askDelete)}>Delete</button>
          </div>`}
      </li>`;
  }
}
