//! Networks train on this crate's devices through Burn's own modules and optimizers: in a part of their memory bit for bit as with
//! unlimited memory, and as on Burn's own device but for rounding.

use std::thread;
use std::time::{Duration, Instant};

use burn::tensor::Device;

use crate::face::{Config, OvercommitDevice, device_on, stats};
use crate::support::{Convolutions, Network, Recurrent, Trained, Transformer, train};

const STEPS: usize = 8;

/// What training leaves on a device of this budget, and the most memory that it took.
fn on<N: Network>(index: u16, budget_bytes: Option<usize>) -> (Trained, usize) {
    let name = OvercommitDevice::Host(index);
    let config = budget_bytes.into_iter().fold(Config::new(), Config::budget_bytes);
    let device = device_on(name, config).unwrap();
    let trained = train::<N>(&device.clone().autodiff(), STEPS);
    // Where ops are messages, the last of them wait for more.
    device.sync().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while stats(&name).unwrap().allocated_bytes > 0 {
        assert!(Instant::now() < end, "nothing is left on {name}");
        thread::sleep(Duration::from_millis(1));
    }
    (trained, stats(&name).unwrap().peak_allocated_bytes)
}

/// Trains on devices `index` and the next; `share` of the need is the second's budget.
fn trains_in_a_part<N: Network>(index: u16, share: f64) {
    let (unlimited, peak_bytes) = on::<N>(index, None);
    let budget_bytes = (peak_bytes as f64 * share) as usize;
    let (budgeted, budgeted_peak_bytes) = on::<N>(index + 1, Some(budget_bytes));
    assert!(budgeted_peak_bytes <= budget_bytes, "{budgeted_peak_bytes} of {budget_bytes} bytes");
    assert!(unlimited.bits() == budgeted.bits(), "the bits of unlimited memory");
    let own = train::<N>(&Device::flex().autodiff(), STEPS);
    assert!(unlimited.apart(&own) < 0.02, "{:?}\n{:?}", unlimited.losses, own.losses);
}

#[test]
fn convolutions_train_in_a_quarter_of_their_need() {
    trains_in_a_part::<Convolutions>(10, 0.25);
}

#[test]
fn an_lstm_trains_in_a_quarter_of_its_need() {
    trains_in_a_part::<Recurrent>(12, 0.25);
}

#[test]
fn a_transformer_trains_in_a_quarter_of_its_need() {
    trains_in_a_part::<Transformer>(14, 0.25);
}
