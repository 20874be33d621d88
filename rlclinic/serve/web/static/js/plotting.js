// What uPlot is told: columns, bands, scales and colours.

/** A colour (or another value) of the present theme. */
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function fade(colour, alpha) {
  const hex = colour.replace("#", "");
  const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

/** The range of what is read, with as much again on each side for spikes: one of them must not flatten the rest. */
function calm(lines, low, high) {
  const read = lines
    .filter((each) => !each.envelope)
    .flatMap((each) => [...each.values, ...(each.low ?? []), ...(each.high ?? [])])
    .filter((value) => value !== null && value !== undefined);
  if (!read.length) return [low, high];
  const least = read.reduce((a, b) => Math.min(a, b)),
    most = read.reduce((a, b) => Math.max(a, b));
  const room = 0.5 * (most - least || Math.abs(most) || 1);
  return [Math.max(low, least - room), Math.min(high, most + room)];
}

/** A scale that shows the data, and the threshold and the healthy band where they are near. */
export function span(spec, low, high) {
  if (spec.lines.some((each) => each.envelope)) [low, high] = calm(spec.lines, low, high);
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  const size = high - low || Math.abs(high) || 1;
  const { threshold } = spec;
  if (threshold !== null && threshold !== undefined && Math.abs(threshold - (low + high) / 2) < 20 * size) {
    low = Math.min(low, threshold);
    high = Math.max(high, threshold);
  }
  for (const end of spec.band ?? [])
    if (end !== null && end > low - 0.75 * size && end < high + 0.75 * size) [low, high] = [Math.min(low, end), Math.max(high, end)];
  const room = 0.06 * (high - low || size);
  // What is never negative must not seem to be.
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

/** Of a logarithmic axis only the powers of ten, and of many every second. */
export function decades(u, ticks) {
  const whole = ticks.filter((tick) => Number.isInteger(Math.round(Math.log10(tick) * 1e6) / 1e6));
  const step = Math.ceil(whole.length / 5);
  return ticks.map((tick) => (whole.indexOf(tick) % step === 0 && whole.includes(tick) ? tick : null));
}

/** The powers of ten from low to high. uPlot's own steps lose themselves in rounding where numbers are tiny, and never arrive. */
export function powers(u, axis, low, high) {
  const first = Math.round(Math.log10(low)),
    last = Math.round(Math.log10(high));
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, place) => Number(`1e${first + place}`));
}

/** 1, 2 and 5 times the powers of ten; over three decades and more only these, over very many every second. */
export function logTicks(u, axis, low, high) {
  const first = Math.floor(Math.log10(low)),
    last = Math.ceil(Math.log10(high));
  const step = Math.max(1, Math.ceil((last - first) / 6));
  const within = last - first > 3 ? [1] : [1, 2, 5];
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, place) => first + place)
    .filter((power) => power % step === 0)
    .flatMap((power) => within.map((times) => Number(`${times}e${power}`)))
    .filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/** A picture without the places that a logarithmic axis does not have. */
export function positive(spec) {
  const first = spec.x.findIndex((place) => place > 0);
  if (first === 0) return spec;
  const cut = (values) => (values ? values.slice(first < 0 ? values.length : first) : values);
  const part = (each) => ({ ...each, values: cut(each.values), raw: cut(each.raw), low: cut(each.low), high: cut(each.high) });
  return { ...spec, x: cut(spec.x), healthy: spec.healthy && part(spec.healthy), lines: spec.lines.map(part) };
}

const MOST_DECADES = 15; // what lies further below is 0 to the eye

export function logRange(u, low, high) {
  if (!low || !high || low <= 0) return [0.01, 1];
  const top = Math.ceil(Math.log10(high * 1.0001));
  return [10 ** Math.max(Math.floor(Math.log10(low)), top - MOST_DECADES), 10 ** top];
}

/** uPlot's series, bands and columns: what is healthy first, bands next, then raw lines, then what is read. */
export function parts(spec) {
  const series = [{}],
    bands = [],
    data = [spec.x];
  const drawable = (values) => (spec.log ? values.map((value) => (value > 0 ? value : null)) : values);
  const push = (values, options) =>
    data.push(drawable(values)) && series.push({ points: { show: false }, spanGaps: true, pxAlign: 0, ...options }) - 1;
  const area = (low, high, fill, label, edge) => {
    const top = push(high, { label: `${label} high`, width: edge ? 1 : 0, stroke: edge });
    const bottom = push(low, { label: `${label} low`, width: edge ? 1 : 0, stroke: edge });
    bands.push({ series: [top, bottom], fill });
  };
  if (spec.healthy) area(spec.healthy.low, spec.healthy.high, css("--healthy"), "healthy", css("--healthy-edge"));
  for (const each of spec.lines)
    if (each.low && each.fill !== 0) area(each.low, each.high, fade(css(each.colour), each.fill ?? 0.17), each.label);
  for (const each of spec.lines)
    if (each.raw) push(each.raw, { label: `${each.label} raw`, stroke: fade(css(each.colour), 0.28), width: 1 });
  for (const each of spec.lines) {
    push(each.values, {
      label: each.label,
      stroke: each.alpha ? fade(css(each.colour), each.alpha) : css(each.colour),
      width: each.width ?? 2,
      dash: each.dash,
      points: each.points || alone(each.values) ? { show: true, size: 6, fill: css("--card"), width: 1.6 } : { show: false },
    });
  }
  return { series, bands, data };
}

/** One number makes no line: without a dot it would not be seen at all. */
const alone = (values) => values.reduce((sum, value) => sum + (value !== null && value !== undefined), 0) === 1;
