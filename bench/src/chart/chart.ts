/** One panel for each goal: what was measured, above what it is to be. */
import { init } from "echarts"
import { type Goal, goals, isMet } from "./goals.js"
import type { Result } from "./result.js"

const columns = 3
const panel = { width: 320, height: 118 }
const margin = { top: 60, left: 24, right: 24, bottom: 16 }
/** Within a panel: the title above the bars, the names beside them, and the numbers behind them. */
const inset = { top: 44, left: 66, right: 96, bottom: 26 }

const colors = { met: "#2f7d4f", missed: "#c4512d", goal: "#c3c9d0", text: "#24292f", faint: "#66707a" }

const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 })

interface Panel {
  readonly goal: Goal
  readonly value: number
  readonly result: Result
}

const panelsOf = (results: ReadonlyArray<Result>): ReadonlyArray<Panel> =>
  goals.flatMap((goal) =>
    results.flatMap((result) => {
      const value = result.summary[goal.field]
      return value === undefined ? [] : [{ goal, value, result }]
    })
  )

const place = (index: number) => ({
  left: margin.left + (index % columns) * panel.width,
  top: margin.top + Math.floor(index / columns) * panel.height
})

/** When and on what it was measured. */
const conditions = (panels: ReadonlyArray<Panel>): string =>
  [...new Set(panels.map(({ result: { cores, date, node } }) => `${date}, Node.js ${node}, ${cores} cores`))]
    .sort().join("; ")

const bar = (goal: Goal, value: number) => ({
  value,
  itemStyle: { color: goal.goal === undefined ? colors.faint : isMet(goal, value) ? colors.met : colors.missed },
  label: { formatter: `${number.format(value)}${isMet(goal, value) ? "" : ", missed"}`, fontWeight: "bold" as const }
})

const goalBar = ({ better }: Goal, value: number) => ({
  value,
  itemStyle: { color: colors.goal },
  label: { formatter: `${better === "more" ? "at least" : "at most"} ${number.format(value)}` }
})

export const draw = (results: ReadonlyArray<Result>): string => {
  const panels = panelsOf(results)
  const chart = init(null, null, {
    renderer: "svg",
    ssr: true,
    width: margin.left + columns * panel.width + margin.right,
    height: margin.top + Math.ceil(panels.length / columns) * panel.height + margin.bottom
  })
  chart.setOption({
    animation: false,
    backgroundColor: "#ffffff",
    textStyle: { fontFamily: "Helvetica, Arial, sans-serif", color: colors.text },
    title: [
      {
        text: "What was measured, beside its goal",
        subtext: conditions(panels),
        left: margin.left,
        top: 8,
        itemGap: 4,
        padding: 0,
        textStyle: { fontSize: 16 },
        subtextStyle: { fontSize: 11, color: colors.faint }
      },
      ...panels.map(({ goal: { better, title, unit } }, index) => ({
        text: title,
        subtext: `${unit}; ${better === "more" ? "more" : "less"} is better`,
        left: place(index).left,
        top: place(index).top + 8,
        itemGap: 3,
        padding: 0,
        textStyle: { fontSize: 12, fontWeight: "bold" as const },
        subtextStyle: { fontSize: 10, color: colors.faint }
      }))
    ],
    grid: panels.map((_, index) => ({
      left: place(index).left + inset.left,
      top: place(index).top + inset.top,
      width: panel.width - inset.left - inset.right,
      height: panel.height - inset.top - inset.bottom
    })),
    xAxis: panels.map(({ goal: { goal }, value }, index) => ({
      gridIndex: index,
      type: "value" as const,
      min: Math.min(0, value),
      max: Math.max(goal ?? 0, value),
      show: false
    })),
    yAxis: panels.map(({ goal: { goal } }, index) => ({
      gridIndex: index,
      type: "category" as const,
      data: goal === undefined ? ["measured"] : ["measured", "goal"],
      inverse: true,
      axisLine: { onZero: true, lineStyle: { color: colors.goal } },
      axisTick: { show: false },
      axisLabel: { fontSize: 11, color: colors.faint, margin: 8 }
    })),
    series: panels.map(({ goal, value }, index) => ({
      type: "bar" as const,
      silent: true,
      xAxisIndex: index,
      yAxisIndex: index,
      barWidth: 14,
      data: [bar(goal, value), ...(goal.goal === undefined ? [] : [goalBar(goal, goal.goal)])],
      label: { show: true, position: "right" as const, fontSize: 11, color: colors.text }
    }))
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  return `${svg}\n`
}
