// A chart that stays where it is while its numbers change: Plotly redraws it in place.
//
// Streamlit's own chart is made anew whenever a number changes, which takes several times as long, and loses a click
// that comes meanwhile. `dashboard/parts/chart.py` sends what is drawn here.
import "./plotly.js";
import { listen } from "./events.js";
import { toggleNumbers, writeNumbers } from "./numbers.js";
import { savePicture } from "./picture.js";
import { themed } from "./theme.js";

const Plotly = window.Plotly;
const TEXT = new TextDecoder();
const KEY_OF_NUMBERS = "t";
const TABLE_ICON = {
  width: 24,
  height: 24,
  path: "M3 4h18v16H3V4zm2 4v3h6V8H5zm8 0v3h6V8h-6zm-8 5v5h6v-5H5zm8 0v5h6v-5h-6z",
};

class Chart {
  constructor(parent) {
    this.root = parent.ownerDocument.createElement("div");
    this.root.className = "wane-chart";
    this.plot = parent.ownerDocument.createElement("div");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "group");
    this.plot.setAttribute("aria-roledescription", "chart");
    this.plot.setAttribute("aria-keyshortcuts", KEY_OF_NUMBERS.toUpperCase());
    this.plot.addEventListener("keydown", (event) => this.pressed(event));
    this.root.append(this.plot);
    parent.append(this.root);
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(this.root);
  }

  show(text, send) {
    this.send = send;
    if (text === this.text && this.colours === themed.colours(this.root)) return;
    this.text = text;
    this.colours = themed.colours(this.root);
    this.draw();
  }

  draw() {
    const { data, layout, alt, bare } = (this.spec = JSON.parse(this.text));
    this.plot.setAttribute("aria-label", `${alt}. Press T for the numbers.`);
    this.width = this.root.clientWidth;
    this.config ??= this.settings(bare);
    this.drawn = Plotly.react(this.plot, data, themed(layout, this.root, this.width), this.config);
    if (!this.heard) {
      listen(this);
      this.heard = true;
    }
    this.drawn.then(() => this.plot.dispatchEvent(new CustomEvent("wane-drawn")));
    writeNumbers(this);
  }

  settings(bare) {
    const own = [
      { name: "picture", title: "Download as PNG", icon: Plotly.Icons.camera, click: () => savePicture(this) },
      { name: "numbers", title: "The numbers as a table (key T)", icon: TABLE_ICON, click: () => toggleNumbers(this) },
    ];
    const asks = this.spec.listens.includes("box"); // a box then asks the server for that range
    return {
      displayModeBar: !bare,
      displaylogo: false,
      doubleClick: asks ? false : "reset+autosize",
      modeBarButtons: asks ? [own] : [["zoom2d", "pan2d", "resetScale2d"], own],
    };
  }

  pressed(event) {
    if (event.key.toLowerCase() !== KEY_OF_NUMBERS || event.ctrlKey || event.metaKey || event.altKey) return;
    toggleNumbers(this);
    event.preventDefault();
  }

  fit() {
    if (!this.text || !this.root.clientWidth || this.root.clientWidth === this.width) return;
    this.width = this.root.clientWidth;
    this.drawn = Plotly.relayout(this.plot, { width: this.width });
  }

  close() {
    this.resized.disconnect();
    this.root.remove();
    const forget = () => Plotly.purge(this.plot);
    this.drawn?.then(forget, forget); // Plotly may still be about to draw it again, with other margins
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const chart = (parentElement.waneChart ??= new Chart(parentElement));
  chart.show(TEXT.decode(data), setTriggerValue);
  return () => {
    chart.close();
    delete parentElement.waneChart;
  };
}
