// The address follows what is chosen; numbers are none of this file's business.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  explorer: {
    share(chosen, position, still) {
      if (!chosen || !still) return window.dash_clientside.no_update;
      const query = chosen.includes("&pair=") ? `${chosen}&position=${position}` : chosen;
      window.history.replaceState(null, "", query);
      return query;
    },
  },
});
