// What stays in this browser: the half of the token, the last directory, and drafts of messages.

/** What the browser's storage did not take: kept until the page is closed. */
const unsaved = new Map<string, string>();

/** The key of a value in the browser's storage. */
export function storageKey(key: string): string {
  return `jaato.${key}`;
}

/** A value that stays in this browser, such as a draft; in a full or forbidden storage as long as the page. */
export const stored = {
  get: (key: string): string => {
    try {
      return unsaved.get(key) ?? localStorage.getItem(storageKey(key)) ?? "";
    } catch {
      return "";
    }
  },
  set: (key: string, value: string): void => {
    unsaved.delete(key);
    try {
      localStorage.removeItem(storageKey(key));
      if (value) localStorage.setItem(storageKey(key), value);
    } catch {
      unsaved.set(key, value);
    }
  },
};

/** A value that this tab keeps over a reload. */
export const inTab = {
  get: (key: string): string | null => {
    try {
      return sessionStorage.getItem(storageKey(key));
    } catch {
      return null;
    }
  },
  set: (key: string, value: string | null): void => {
    try {
      sessionStorage.removeItem(storageKey(key)); // an old value is worse than none, where the new one is too long
      if (value !== null) sessionStorage.setItem(storageKey(key), value);
    } catch {
      // kept as long as the page
    }
  },
};

/** What is being written: each tab keeps its own while it is open, reloaded too; the last one is there in a new tab. */
export const drafts = {
  get: (key: string): string => inTab.get(key) ?? stored.get(key),
  set: (key: string, value: string): void => {
    stored.set(key, value);
    inTab.set(key, value);
  },
};
