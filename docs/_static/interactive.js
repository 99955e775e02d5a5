// The figures with sliders: docs/interactive.py writes their frames, and tests compare their numbers with the library's.
"use strict";

const frequencies = (dim, base) => Array.from({ length: dim / 2 }, (_, i) => base ** ((-2 * i) / dim));
const shown = (x) => x.toFixed(4).replace(/^-(0\.0+)$/, "$1").replace("-", "−");
const grouped = (x) => Math.round(x).toLocaleString("en");
const nice = (x) => (x < 100 ? x.toFixed(2) : grouped(x));
const line = (kind, x1, y1, x2, y2) => `<line class="${kind}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
const dot = (kind, x, y, r = 4) => `<circle class="${kind}" cx="${x}" cy="${y}" r="${r}"/>`;
const box = (kind, x, y, width, height, opacity = 1) =>
  `<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="${height}" opacity="${opacity}"/>`;
const label = (text, x, y, anchor = "middle") => `<text x="${x}" y="${y}" text-anchor="${anchor}">${text}</text>`;

// Each takes the values of its sliders, and returns the drawing, the numbers of its sentence, and what sliders show.
const FIGURES = {
  clock({ m, n, pair }) {
    const omega = frequencies(64, 10000)[pair];
    const tip = (angle, r = 95) => [300 + r * Math.cos(angle), 120 - r * Math.sin(angle)];
    const hand = (kind, position, name) =>
      line(kind, 300, 120, ...tip(omega * position)) + label(name, ...tip(omega * position, 110));
    const ticks = Array.from({ length: 61 }, (_, t) => dot("seen", ...tip(omega * t), 1.5)).join("");
    const between = (m - n) * omega;
    return {
      svg: dot("line", 300, 120, 95) + ticks + hand("other", n, "k") + hand("curve", m, "q"),
      says: {
        m, n, omega: omega.toPrecision(4), query: shown(m * omega), key: shown(n * omega),
        offset: String(m - n).replace("-", "−"), between: shown(between), cosine: shown(Math.cos(between)),
      },
    };
  },

  product({ t, delta, dim }) {
    const row = (position) => frequencies(dim, 10000).flatMap((w) => [Math.sin(w * position), Math.cos(w * position)]);
    const first = row(t);
    const product = (offset) => row(t + offset).reduce((sum, x, i) => sum + x * first[i], 0);
    const at = (offset, value) => [50 + 5.3 * offset, 120 - (200 / dim) * value];
    const points = Array.from({ length: 101 }, (_, offset) => at(offset, product(offset)).join()).join(" ");
    const axis = [0, 25, 50, 75, 100].map((offset) => label(offset, at(offset, 0)[0], 238)).join("");
    return {
      svg: line("line", 50, 120, 580, 120) + axis + label(dim / 2, 44, 24, "end") + label(0, 44, 124, "end") +
        label(`−${dim / 2}`, 44, 222, "end") + label("δ", 592, 238) +
        `<polyline class="curve" points="${points}"/>` + dot("dot", ...at(delta, product(delta)), 6),
      says: { t, other: t + delta, product: shown(product(delta)), most: dim / 2 },
    };
  },

  wavelengths({ base: tenths, length: power, dim }) {
    const base = Math.round(10 ** (tenths / 10));
    const length = 2 ** power;
    const waves = frequencies(dim, base).map((w) => (2 * Math.PI) / w);
    const y = (wavelength) => 225 - 25 * Math.log10(wavelength);
    const x = (pair) => 70 + (510 * pair) / (dim / 2);
    const axis = [1, 100, "10⁴", "10⁶", "10⁸"].map((text, i) => label(text, 60, y(100 ** i) + 4, "end")).join("");
    const points = waves.map((wave, i) => dot(wave <= length ? "seen" : "unseen", x(i), y(wave), 3)).join("");
    return {
      svg: axis + points + line("other", 70, y(length), 580, y(length)) + label(grouped(length), 580, y(length) - 6, "end"),
      says: {
        base: grouped(base), shortest: nice(waves[0]), longest: nice(waves.at(-1)), length: grouped(length),
        whole: waves.filter((wave) => wave <= length).length, pairs: dim / 2,
      },
      values: { base: grouped(base), length: grouped(length) },
    };
  },

  decoding({ prompt, step }) {
    const length = prompt + step;
    const start = step ? length - 1 : 0;
    const score = (offset) => (2 * frequencies(64, 10000).reduce((sum, w) => sum + Math.cos(w * offset), 0)) / 8;
    const weights = (query) => {
      const powers = Array.from({ length: query + 1 }, (_, key) => Math.exp(score(query - key) - score(0)));
      return powers.map((power) => power / powers.reduce((sum, each) => sum + each, 0));
    };
    const all = Array.from({ length: 12 }, (_, position) => position);
    const [x, y] = [(key) => 90 + 40 * key, (query) => 62 + 14.5 * query];
    const keys = all.map((key) => {
      const kind = key < start ? "seen" : key < length ? "dot" : "line";
      return label(key, x(key) + 18, 18) + box(kind, x(key), 26, 36, 13) + box(kind, x(key), 41, 36, 13);
    });
    const rows = all.slice(0, length).map((query) => {
      const [of, own] = [weights(query), weights(query).at(-1)];
      const cells = of.map((weight, key) =>
        query < start
          ? box("line", x(key), y(query), 36, 12, 0.5)
          : box("dot", x(key), y(query), 36, 12, 0.1 + (0.9 * weight) / own),
      );
      return (query === length - 1 ? label(`q ${query}`, 82, y(query) + 12, "end") : "") + cells.join("");
    });
    return {
      svg: label("k, v", 82, 46, "end") + keys.join("") + rows.join(""),
      says: {
        call: step + 1, start, count: length - start, cached: start, query: length - 1, seen: length,
        weight: shown(weights(length - 1).at(-1)), computed: length,
        again: ((prompt + length) * (step + 1)) / 2,
      },
    };
  },
};

for (const figure of document.querySelectorAll(".interactive")) {
  const sliders = [...figure.querySelectorAll("input")];
  const draw = () => {
    const { svg, says, values = {} } = FIGURES[figure.dataset.figure](
      Object.fromEntries(sliders.map((slider) => [slider.name, Number(slider.value)])),
    );
    figure.querySelector("svg").innerHTML = svg;
    figure.querySelector(".says").textContent = figure.dataset.says.replace(/\{(\w+)\}/g, (_, name) => says[name]);
    for (const slider of sliders) {
      const value = values[slider.name] ?? slider.value;
      slider.previousElementSibling.querySelector("output").textContent = value;
      slider.setAttribute("aria-valuetext", value);
    }
  };
  figure.addEventListener("input", draw);
  draw();
}
