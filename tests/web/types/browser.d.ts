// What the page uses of a browser and a compiler's library does not know.
declare const trustedTypes: { createPolicy(name: string, rules: object): any };
interface Window { trustedTypes?: object; hermesCut(): void }
