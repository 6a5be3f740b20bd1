// Where the score went: the ledger as a bar, and a waterfall.

function ledgerElement(page, view) {
  return Dom.make("div", { class: "ledger" });
}
