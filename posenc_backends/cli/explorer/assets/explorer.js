// Keep the URL in step with the chosen values, and advance the animation.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  explorer: {
    // Move to the next position as soon as the picture of this one is drawn.
    step(_, position, last, words) {
      if (!words.startsWith(`Position ${position}:`)) return window.dash_clientside.no_update;
      return Number(position) < last ? Number(position) + 1 : 0;
    },
    share(chosen, position, paused) {
      if (!chosen || !paused) return window.dash_clientside.no_update;
      const query = chosen.includes("&pair=") ? `${chosen}&position=${position}` : chosen;
      window.history.replaceState(null, "", query);
      return query;
    },
  },
});
