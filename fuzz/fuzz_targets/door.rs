//! The bytes of a stranger, sent to `overcommit serve`: nothing is changed on its way, and no more gets in than a head and one message, frame by
//! frame, whatever lengths the frames name.

#![no_main]

use burn_overcommit::serve::pass_stranger;
use libfuzzer_sys::fuzz_target;

/// The longest head, and the longest first message; control frames among its parts have 125 bytes at the most.
const MOST_BYTES: usize = (16 << 10) + (64 << 10);
const OPENING: &[u8] = b"GET /session HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n";

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let sent = if kind == 0 { rest.to_vec() } else { [OPENING, &many(rest)].concat() };
    let (mut requests, mut passed) = (sent.as_slice(), Vec::new());
    let is_passed = pass_stranger(&mut requests, &mut passed);
    assert!(sent.starts_with(&passed), "what is passed on was sent");
    let starts = passed.iter().filter(|&&byte| byte & 0x08 != 0).count();
    assert!(passed.len() <= MOST_BYTES + starts * (125 + 14), "{} bytes got in", passed.len());
    if is_passed.is_ok_and(|is_passed| is_passed) {
        let end = passed.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head comes first");
        let head = String::from_utf8(passed[..end].to_vec()).expect("a head is text").to_ascii_lowercase();
        assert!(!head.lines().any(|line| line.starts_with("origin:")), "a web page got in");
        assert_eq!(requests.len(), sent.len() - passed.len(), "what comes next waits");
    }
});

/// Each byte pair as a run of bytes, so that long frames are short inputs.
fn many(data: &[u8]) -> Vec<u8> {
    let run = |pair: &[u8]| match *pair {
        [0xff, count] => vec![0; usize::from(count) << 8],
        _ => pair.to_vec(),
    };
    data.chunks(2).flat_map(run).collect()
}
