//! Tests of data parallel training with Burn 0.21, which need its feature `distributed`.
