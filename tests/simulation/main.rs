//! Programs on simulated devices: networks, recorded runs, replays and reports.

mod networks;
mod recorded_runs;
mod report;
mod simulation;
mod traces;
