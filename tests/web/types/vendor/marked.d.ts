export type Token = { type: string; raw: string; text?: string; [name: string]: any };
export class Marked {
  constructor(options?: object);
  use(options: object): void;
  lexer(text: string): Token[];
}
