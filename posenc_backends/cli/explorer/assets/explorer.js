// Show what was drawn, keep the URL in step with the chosen values, and advance the animation.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  explorer: {
    // Show an answer, unless other values have been chosen since; the answer to those is still to come.
    show(drawn) {
      const {no_update, callback_context: context} = window.dash_clientside;
      const sent = (value) => (Number.isNaN(value) ? null : value ?? null); // as JSON has it
      const isLate = !drawn || context.states_list.flat().some(({id, value}) => sent(value) !== sent(drawn.values[id.name]));
      const [sliders] = context.outputs_list.filter(Array.isArray);
      const or = (value) => value ?? no_update;
      const {message, code, code_with, note, chosen, link_message, last_position, ends} = drawn ?? {};
      const busy = "false";
      const {hidden, halves, figures, words} = drawn ?? {};
      return isLate
        ? context.outputs_list.map((output) => (Array.isArray(output) ? output.map(() => no_update) : no_update))
        : [
            ...[message, code, code_with, note, chosen, link_message, busy, last_position].map(or),
            sliders.map(({id}) => or(ends[id.name])),
            ...[...hidden, ...halves, ...figures, ...words].map(or),
          ];
    },
    // Move to the next position as soon as the picture of this one is drawn.
    step(_, position, last, ...words) {
      if (!words.some((each) => each.match(/\d+/)?.[0] === String(position))) return window.dash_clientside.no_update;
      return Number(position) < last ? Number(position) + 1 : 0;
    },
    share(chosen, position, paused) {
      const {no_update} = window.dash_clientside;
      if (!chosen || !paused) return [no_update, no_update];
      const query = chosen.includes("&pair=") ? `${chosen}&position=${position}` : chosen;
      window.history.replaceState(null, "", query);
      return [query, (document.documentElement.lang === "en" ? "/zh/" : "/") + query];
    },
    // From a choice until its pictures are shown, those of the choice before are dimmed.
    wait: () => "true",
    name: (kind) => (kind === "none" && document.documentElement.lang !== "en" ? "无" : kind),
  },
});

// On a phone, the list of encodings closes after a tap, so that what it has changed is in sight.
document.addEventListener("click", (event) => {
  const list = event.target.closest(".kinds");
  if (list && event.target.matches("input") && window.matchMedia("(max-width: 56rem)").matches) list.open = false;
});

// "compare": keep the encoding that is shown, and put the one of the link beside it.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a.compare");
  if (!link) return;
  event.preventDefault();
  const shown = [...new URLSearchParams(location.search)].filter(([name]) => !name.startsWith("with."));
  const views = ["length", "side", "pair", "head", "cell", "position"];
  const beside = [...new URLSearchParams(link.search)].filter(([name]) => !views.includes(name));
  const parts = [...shown, ...beside.map(([name, text]) => [`with.${name}`, text])];
  location.search = new URLSearchParams(parts);
});
