// The numbers of a chart as a table, for those who cannot see it and those who want to read them.
const MOST_ROWS = 500;
const DIGITS = 6;

export function toggleNumbers(chart) {
  chart.open = !chart.open;
  writeNumbers(chart);
  if (chart.open) chart.table.focus();
  else chart.plot.focus();
}

export function writeNumbers(chart) {
  chart.table?.remove();
  chart.table = null;
  if (!chart.open) return;
  const page = chart.root.ownerDocument;
  const box = (chart.table = page.createElement("div"));
  box.className = "wane-numbers";
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `The numbers of: ${chart.spec.alt}`);
  box.style.cssText = "max-height:320px;overflow:auto;font-size:14px;margin-top:4px";
  box.addEventListener("keydown", (event) => chart.pressed(event));
  const table = page.createElement("table");
  table.style.cssText = "border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums";
  const [head, ...rows] = cells(chart);
  table.append(line(page, head, "th"));
  for (const row of rows.slice(0, MOST_ROWS)) table.append(line(page, row, "td"));
  box.append(table);
  if (rows.length > MOST_ROWS) box.append(`${rows.length - MOST_ROWS} more: CSV and JSON have them.`);
  chart.root.append(box);
}

function line(page, texts, tag) {
  const row = page.createElement("tr");
  for (const text of texts) {
    const cell = page.createElement(tag);
    if (tag === "th") cell.scope = "col";
    cell.style.cssText = "text-align:left;padding:2px 10px;border-bottom:1px solid rgba(134,142,150,0.3)";
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

// One row for each point that is drawn; bands, which only repeat the limits, are left out.
function cells(chart) {
  const layout = chart.plot._fullLayout;
  const traces = chart.plot._fullData.filter((trace) => trace.visible === true && trace.fill !== "toself");
  const limits = traces.some((trace) => trace.customdata?.[0]?.length >= 3);
  const several = traces.length > 1;
  const across = layout.xaxis.title.text || "x";
  const up = layout.yaxis.title.text || "y";
  const upright = traces.some((trace) => trace.orientation === "h");
  const head = [...(several ? ["line"] : []), across, up, ...(limits ? ["from", "to"] : [])];
  const rows = [head];
  for (const trace of traces) {
    if (trace.type === "heatmap") {
      trace.z.forEach((row, at) =>
        Array.from(row).forEach((number, over) =>
          rows.push([...(several ? [trace.name] : []), shown(trace.x?.[over] ?? over), `${trace.y?.[at] ?? at}: ${shown(number)}`]),
        ),
      );
      continue;
    }
    Array.from(trace.x ?? []).forEach((x, at) => {
      const y = trace.y?.[at];
      if (x === null || y === null || Number.isNaN(y)) return;
      const told = trace.customdata?.[at];
      const [low, high] = limits ? [told?.[1] ?? "", told?.[2] ?? ""] : [];
      const named = upright ? (layout.yaxis.ticktext?.[y] ?? y) : y;
      rows.push([...(several ? [trace.name] : []), shown(x), told && !upright ? told[0] : shown(named), ...(limits ? [low, high] : [])]);
    });
  }
  return rows;
}

function shown(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(DIGITS)));
  return typeof value === "string" ? value.replace("T", " ") : String(value ?? "");
}
