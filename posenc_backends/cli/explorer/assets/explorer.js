// The address follows what is chosen; numbers are none of this file's business.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  explorer: {
    // To the next position, once the picture of this one has come.
    step(_, position, last, told) {
      if (!told.startsWith(`Position ${position}:`)) return window.dash_clientside.no_update;
      return Number(position) < last ? Number(position) + 1 : 0;
    },
    share(chosen, position, still) {
      if (!chosen || !still) return window.dash_clientside.no_update;
      const query = chosen.includes("&pair=") ? `${chosen}&position=${position}` : chosen;
      window.history.replaceState(null, "", query);
      return query;
    },
  },
});
