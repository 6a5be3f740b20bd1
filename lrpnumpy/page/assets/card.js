// One record without the table, by all its methods: in a notebook, where it is a frame of that page, or as a file.

class Card {
  constructor() {
    this.data = new Data(JSON.parse(document.getElementById("payload").textContent));
    this.hooks = { panels: [], steps: [] };
    this.element = document.getElementById("record");
    this.state = { record: String(this.data.record(0).number), asked: null, methods: this.data.methods, set: ({ class: c }) => this.choose(c) };
    this.state.method = this.state.methods[0];
    this.recordView = new RecordView(this, this.element);
    this.embed();
    this.recordView.update();
  }

  choose(c) {
    this.state.asked = Number(c);
    this.recordView.update();
  }

  view(record) {
    return { record, method: this.state.method, c: record.part.shown(record.k, this.state.method, this.state.asked) };
  }

  say(text) {
    document.getElementById("said").textContent = text;
  }

  // In a frame: as high as what it shows, light or dark as the page around it; the text beside it is not needed.
  embed() {
    const frame = window.frameElement;
    if (!frame) return;
    frame.previousElementSibling?.setAttribute("hidden", "");
    const ink = getComputedStyle(frame.parentElement).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    document.documentElement.dataset.theme = Color.ink(ink)[0] ? "light" : "dark";
    new ResizeObserver(() => (frame.style.height = `${document.body.offsetHeight + 2}px`)).observe(document.body);
  }
}

const page = new Card();
