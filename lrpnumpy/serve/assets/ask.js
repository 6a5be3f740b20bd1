// Questions to the server: one at a time, the newest next, so that an old answer never replaces a newer one.

const ASK = { apart: 30, typing: 60, again: 400, late: 1000, pause: 1500 }; // milliseconds

class Asker {
  // answered(question, answer), failed(text) and busy(is) are told what happens.
  constructor(token, { answered, failed, busy }) {
    Object.assign(this, { token, answered, failed, busy, next: null, running: null, since: 0, timer: 0 });
  }

  // Ask soon; a question that was not sent yet is forgotten, and one that takes long is given up.
  ask(question, wait = 0) {
    this.next = question;
    if (this.running) {
      if (performance.now() - this.since > ASK.late) this.running.abort();
      return;
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), Math.max(wait, this.since + ASK.apart - performance.now()));
  }

  async send() {
    const question = this.next;
    this.next = null;
    this.running = new AbortController();
    this.since = performance.now();
    const slow = setTimeout(() => this.busy(true), 150);
    try {
      const { status, body } = await this.fetch("explain", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question),
      });
      if (status === 200 && !body.error) this.answered(question, body);
      else if ((status === 429 || status === 503) && !body.error.startsWith("The computation")) {
        this.next ??= question; // too much at once: the same again in a moment
        this.since = performance.now() + ASK.again;
      } else this.failed(body.error);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(LIVE.silent);
    }
    clearTimeout(slow);
    this.busy(false);
    this.running = null;
    if (this.next) this.ask(this.next);
  }

  async fetch(path, options = {}) {
    const headers = { ...options.headers, "X-Lrpnumpy-Token": this.token };
    const signal = path === "explain" ? this.running.signal : undefined;
    const response = await fetch(path, { ...options, headers, signal, cache: "no-store", credentials: "omit" });
    return { status: response.status, body: await response.json() };
  }
}
