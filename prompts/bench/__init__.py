"""Benchmark of prompt templates: data sets, scoring, statistics, report."""
