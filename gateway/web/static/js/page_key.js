// The key that belongs to the cookie. A cookie goes to every port of this machine; what is stored here stays with this page.
const STORED = "turngate.key";
const WRITTEN = /^#key=([0-9a-f]{64})$/;

// The one-time link leads here with the key behind the #, which no server is sent.
export function takePageKey() {
  const found = WRITTEN.exec(location.hash);
  if (!found) return;
  localStorage.setItem(STORED, found[1]);
  history.replaceState(null, "", location.pathname);
}

// Read anew for each connection: another tab may have opened a newer link.
export function pageKey() {
  return localStorage.getItem(STORED) ?? "";
}
