/* The files that make up the page of `parkade report --html`, inside the program; each ends with a NUL. */
#include "cli/embed.inc"

.section .rodata
file parkade_report_page, "cli/report_assets/report.html"
file parkade_report_style, "cli/report_assets/report.css"
file parkade_report_script, "cli/report_assets/report.js"
file parkade_uplot_style, "cli/report_assets/uplot/uPlot.min.css"
file parkade_uplot_script, "cli/report_assets/uplot/uPlot.iife.min.js"
file parkade_uplot_license, "cli/report_assets/uplot/LICENSE"

.section .note.GNU-stack, "", @progbits
