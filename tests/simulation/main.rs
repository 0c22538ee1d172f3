//! Programs on simulated devices: networks, recorded runs, replays and reports.

mod networks;
mod planned_steps;
mod recorded_runs;
mod report;
mod simulation;
mod traces;
