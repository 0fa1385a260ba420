// What is being written and not sent, for each conversation. It stays with its tab, across reloads too.

const PREFIX = "turngate.draft.";
// The browser's storage is small; a text beyond this is kept until the page is left.
const LONGEST_KEPT = 200_000;

export class Drafts {
  constructor(storage) {
    this.storage = storage;
    this.texts = new Map();
  }

  of(conversation) {
    return this.texts.get(conversation) ?? this.storage.getItem(PREFIX + conversation) ?? "";
  }

  set(conversation, text) {
    this.texts.set(conversation, text);
    if (!text || text.length > LONGEST_KEPT) {
      this.storage.removeItem(PREFIX + conversation);
      return;
    }
    try {
      this.storage.setItem(PREFIX + conversation, text);
    } catch {
      // Full: the text is still in the page.
    }
  }
}
