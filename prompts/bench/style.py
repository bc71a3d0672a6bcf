"""The style of the report, for light and dark, wide and narrow."""

STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2127; --soft: #5c6873; --line: #dde2e7;
  --card: #f6f8fa; --good: #1a7f45; --bad: #b3342b; --c0: #2563c9; --c1: #d2691e; --c2: #1a8a5a;
  --c3: #9340b8; --c4: #a37b08; --c5: #c2346b; --c6: #0e8ba0; --c7: #6b6f76 }
@media (prefers-color-scheme: dark) { :root { --bg: #14181d; --fg: #e3e8ed; --soft: #9aa6b2;
  --line: #303841; --card: #1c2229; --good: #57c785; --bad: #f0837a; --c0: #6ea3f5; --c1: #f0a060;
  --c2: #5fcf9d; --c3: #cb8be8; --c4: #e3be5a; --c5: #f083ad; --c6: #56c8da; --c7: #a8b0b8 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1180px; padding: 24px 16px 80px;
  font: 15px/1.5 system-ui, sans-serif; background: var(--bg); color: var(--fg) }
h1 { font-size: 1.7em; margin: 0 } h2 { font-size: 1.25em; margin: 2.2em 0 .4em }
h3 { font-size: 1em; margin: 1.4em 0 .3em } p { margin: .3em 0 .8em; max-width: 70ch }
p, .soft { color: var(--soft) } .wide { overflow-x: auto }
table { border-collapse: collapse } th, td { padding: 5px 0 5px 14px; text-align: right;
  white-space: nowrap; border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums }
th { color: var(--soft); font-weight: 500; vertical-align: bottom }
th:first-child, td:first-child { text-align: left }
.words :is(td, th):is(:nth-child(2), :last-child) { text-align: left }
th:first-child, td:first-child { padding-left: 0; position: sticky; left: 0; background: inherit }
tr { background: var(--bg) } tr.model td { font-weight: 600; padding-top: 14px }
.models { display: grid; gap: 0 40px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)) }
svg { width: 100%; max-width: 620px; height: auto; display: block }
svg text { fill: var(--soft); font-size: 12px } svg .name { fill: var(--fg) }
.label { text-anchor: end } .tick { text-anchor: middle } .grid { stroke: var(--line) }
.dot { display: inline-block; width: .72em; height: .72em; border-radius: 50%; margin-right: .5em;
  background: var(--c); border: 2px solid var(--c) } .dot.hollow { background: none }
.keys { display: flex; flex-wrap: wrap; gap: 2px 18px }
details { border: 1px solid var(--line); border-radius: 6px; margin: 6px 0;
  background: var(--card) }
summary { padding: 6px 12px; cursor: pointer; overflow-wrap: anywhere }
details > div { padding: 2px 12px 10px } details details { background: var(--bg) }
.case > summary { display: flex; flex-wrap: wrap; gap: 0 10px; align-items: baseline }
.case > summary::before { content: "▸" } .case[open] > summary::before { content: "▾" }
.case > summary .asked { flex: 1 1 24ch; min-width: 0 }
.verdicts { letter-spacing: .12em; white-space: nowrap }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 2px 0 10px; font-size: 13px }
.good { color: var(--good) } .bad { color: var(--bad) }
.answer { border-top: 1px solid var(--line); padding-top: 8px; margin-top: 8px }
.diff td, .diff th { white-space: normal; overflow-wrap: anywhere; vertical-align: top;
  text-align: left; font-size: 13px; padding: 2px 16px 2px 0; background: none }
.diff tr { background: none } .diff td { font-family: ui-monospace, monospace }
"""
