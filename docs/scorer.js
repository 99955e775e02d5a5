/* How the search orders what it finds (`html_search_scorer`): of equal hits, first the page that teaches. */
const FIRST = { tutorial: 4, howto: 3, explanation: 2, reference: 1 };

var Scorer = {
  score: ([page, , , , score]) => score + (FIRST[page.split("/")[0]] || 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
