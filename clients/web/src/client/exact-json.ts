// JSON whose integers survive: those that JavaScript would round stay as they are written, shown and sent back unchanged.

/** The part of the JSON interface that TypeScript does not know yet. Browsers without it round such integers. */
interface SourceText {
  rawJSON?: (text: string) => object;
  isRawJSON?: (value: unknown) => boolean;
  parse: (text: string, revive: (key: string, value: unknown, context?: { source?: string }) => unknown) => unknown;
}

const JSON_SOURCE = JSON as unknown as SourceText;
/** Numbers with so many digits before the point or such an exponent may not fit; other texts are parsed without a look at each value. */
const LARGE = /(?<![.\d])\d{16}|\d[eE]\+?\d{3}/;

/** Parse a text. Throws `SyntaxError`, also for a number that is too large for any program. */
export function parseJson(text: string): unknown {
  if (!LARGE.test(text)) return JSON.parse(text);
  return JSON_SOURCE.parse(text, (_key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
    if (!Number.isFinite(value)) throw new SyntaxError(`${(context?.source ?? "A number").slice(0, 40)} is too large`);
    return context?.source && /^-?\d+$/.test(context.source) && JSON_SOURCE.rawJSON ? JSON_SOURCE.rawJSON(context.source) : value;
  });
}

/** Whether a value is an integer that is kept as it was written. */
export function isRawNumber(value: unknown): boolean {
  return JSON_SOURCE.isRawJSON?.(value) ?? false;
}

/** A value as JSON. Halves of characters, which UTF-8 cannot carry and the server refuses, become U+FFFD. */
export function writeJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => (typeof inner === "string" ? inner.replace(LONE_SURROGATES, "\ufffd") : inner));
}

const LONE_SURROGATES = /[\ud800-\udfff]/gu;
