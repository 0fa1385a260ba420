// What was written here and is not stored by the gateway yet. It is kept in the browser until it is, across reloads.

const PREFIX = "turngate.outbox.";

export class Outbox {
  // Each message has a key of its own, because several tabs share the storage.
  constructor(storage, onChange) {
    this.storage = storage;
    this.messages = readAll(storage);
    addEventListener("storage", (event) => {
      if (!event.key?.startsWith(PREFIX) || event.newValue !== null) return;
      this.messages = this.messages.filter((one) => PREFIX + one.id !== event.key);
      onChange();
    });
  }

  get first() {
    return this.messages[0];
  }

  of(conversation) {
    return this.messages.filter((one) => one.conversation === conversation);
  }

  // Returns whether a reload would still know it.
  add(message) {
    this.messages = [...this.messages, message];
    try {
      this.storage.setItem(PREFIX + message.id, JSON.stringify(message));
      return true;
    } catch {
      return false;
    }
  }

  take(id) {
    const found = this.messages.find((one) => one.id === id);
    this.messages = this.messages.filter((one) => one.id !== id);
    this.storage.removeItem(PREFIX + id);
    return found;
  }
}

function readAll(storage) {
  const keys = Array.from({ length: storage.length }, (_, index) => storage.key(index));
  return keys
    .filter((key) => key.startsWith(PREFIX))
    .map((key) => read(storage, key))
    .filter(Boolean)
    .sort((one, other) => (one.at < other.at ? -1 : 1));
}

function read(storage, key) {
  try {
    const { conversation, id, text, at } = JSON.parse(storage.getItem(key));
    return typeof text === "string" && key === PREFIX + id ? { conversation, id, text, at } : null;
  } catch {
    return null;
  }
}
