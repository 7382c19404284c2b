declare const temml: { __renderToMathMLTree(text: string, options: object): any };
export default temml;
