export const useEffect: any, useLayoutEffect: any, useRef: any, useState: any, useMemo: any;
