export function signal<Value = any>(value: Value): { value: any };
export function computed<Value>(compute: () => Value): { readonly value: Value };
export function effect(run: () => void): () => void;
export function batch(run: () => void): void;
