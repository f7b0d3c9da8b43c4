// A few line icons.

const PATHS = {
  sun: "M12 4V2m0 20v-2m8-8h2M2 12h2m13.7-5.7 1.4-1.4M4.9 19.1l1.4-1.4m0-11.4L4.9 4.9m14.2 14.2-1.4-1.4M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0Z",
  moon: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5Z",
  left: "m15 5-7 7 7 7",
  right: "m9 5 7 7-7 7",
  download: "M12 4v11m0 0 4-4m-4 4-4-4M5 20h14",
  trash: "M5 7h14M10 7V4h4v3m-7 0 1 13h8l1-13",
  search: "M20 20l-4.5-4.5M17 10.5a6.5 6.5 0 1 1-13 0 6.5 6.5 0 0 1 13 0Z",
  close: "M6 6l12 12M18 6 6 18",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5m11-5v5h-5",
  leave: "M14 4h5v16h-5M4 12h10m-4-4 4 4-4 4",
  up: "m6 14 6-6 6 6",
  down: "m6 10 6 6 6-6",
};

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg class="glyph" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
