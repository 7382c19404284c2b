// What the page uses of Preact.
export type VNode = object;
export type Drawn = VNode | string | number | null | undefined | boolean | Drawn[];
export class Component<Props = any, State = any> {
  constructor(props?: Props);
  props: Props;
  state: State;
  base?: HTMLElement;
  setState(change: Partial<State> | ((state: State) => Partial<State>), done?: () => void): void;
  render(props?: Props, state?: State): Drawn;
  [name: string]: any;
}
export function h(name: any, attributes: object | null, ...children: any[]): VNode;
export function render(what: Drawn, where: Element): void;
export function createRef(): { current: any };
export const Fragment: any;
