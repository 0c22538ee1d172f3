//! The host engine.
