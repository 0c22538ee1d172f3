//! A client that sends what it should not.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tungstenite::{Message, WebSocket};

/// The messages that a well-behaved client sends, read off its connection.
pub fn recorded(address: &str, client: impl FnOnce(&str)) -> Vec<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = format!("ws://{}", listener.local_addr().unwrap());
    let server = address.trim_start_matches("ws://").to_owned();
    let sent = Arc::new(Mutex::new(Vec::new()));
    // Burn's client keeps its connection, so the relay lasts as long as the process.
    thread::spawn({
        let sent = sent.clone();
        move || {
            let (mut from_client, _) = listener.accept().unwrap();
            let mut to_server = TcpStream::connect(server).unwrap();
            let (mut from_server, mut to_client) =
                (to_server.try_clone().unwrap(), from_client.try_clone().unwrap());
            let answers = thread::spawn(move || {
                let _ = io::copy(&mut from_server, &mut to_client);
                let _ = to_client.shutdown(Shutdown::Both);
            });
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = from_client.read(&mut buffer) {
                sent.lock().unwrap().extend_from_slice(&buffer[..count]);
                if to_server.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            let _ = to_server.shutdown(Shutdown::Both);
            answers.join().unwrap();
        }
    });
    client(&relay);
    let sent = sent.lock().unwrap();
    let end = sent.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    messages(&sent[end..])
}

/// The binary messages of a stream of masked frames.
fn messages(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let [first, second, rest @ ..] = stream {
        let (length, rest) = match second & 0x7f {
            126 => (u16::from_be_bytes(rest[..2].try_into().unwrap()) as usize, &rest[2..]),
            127 => (u64::from_be_bytes(rest[..8].try_into().unwrap()) as usize, &rest[8..]),
            short => (short as usize, rest),
        };
        let (mask, rest) = rest.split_at(4);
        let (payload, rest) = rest.split_at(length);
        if first & 0x0f == 2 {
            found.push(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect());
        }
        stream = rest;
    }
    found
}

/// How long an attack waits for an answer.
const ANSWER: Duration = Duration::from_millis(20);

/// One of several misdeeds, as the seed says.
pub fn attack(address: &str, session: &[Vec<u8>], seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    // The server may hang up at any time.
    let _ = match random.random_range(0..12) {
        0 => noise(address, &mut random),
        1 => flood(address, session, &mut random),
        2 => data(address, &mut random),
        3 => large(address, session, &mut random),
        _ => altered(address, session, &mut random),
    };
}

fn socket(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address.trim_start_matches("ws://"))?;
    socket.set_read_timeout(Some(ANSWER))?;
    socket.set_write_timeout(Some(Duration::from_millis(500)))?;
    Ok(socket)
}

/// Bytes that are no protocol, or a beginning of one.
fn noise(address: &str, random: &mut StdRng) -> io::Result<()> {
    let mut socket = socket(address)?;
    if random.random() {
        socket.write_all(b"GET /session HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Version: ")?;
    }
    let mut bytes = vec![0; random.random_range(1..5000)];
    random.fill_bytes(&mut bytes);
    socket.write_all(&bytes)
}

/// The message that opens a session, for another session: its number is the first of eight bytes.
fn opening(message: &[u8], random: &mut StdRng) -> Vec<u8> {
    const EIGHT_BYTES: u8 = 0xcf;
    let mut message = message.to_vec();
    let at = message.iter().position(|&byte| byte == EIGHT_BYTES).unwrap() + 1;
    random.fill_bytes(&mut message[at..at + 8]);
    message
}

fn session_socket(address: &str) -> io::Result<WebSocket<TcpStream>> {
    web_socket(address, "session")
}

fn web_socket(address: &str, route: &str) -> io::Result<WebSocket<TcpStream>> {
    let stream = socket(address)?;
    // A busy server may take some time to answer.
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut socket, _) = tungstenite::client(format!("{address}/{route}"), stream)
        .map_err(|error| io::Error::other(error.to_string()))?;
    socket.get_mut().set_read_timeout(Some(ANSWER))?;
    Ok(socket)
}

fn send(socket: &mut WebSocket<TcpStream>, message: Vec<u8>) -> io::Result<()> {
    socket.send(Message::binary(message)).map_err(io::Error::other)
}

/// A session whose messages come many times over, and whose answers nobody reads.
fn flood(address: &str, session: &[Vec<u8>], random: &mut StdRng) -> io::Result<()> {
    let mut socket = session_socket(address)?;
    send(&mut socket, opening(&session[0], random))?;
    for _ in 0..random.random_range(10..200) {
        send(&mut socket, session[random.random_range(1..session.len())].clone())?;
    }
    Ok(())
}

/// What another server asks for, or not.
fn data(address: &str, random: &mut StdRng) -> io::Result<()> {
    let mut socket = web_socket(address, "data")?;
    for _ in 0..random.random_range(1..20) {
        // A request for a tensor, in MessagePack, which may be altered.
        let mut request = [&[0x81, 0xad], b"TensorRequest".as_slice(), &[0xcf]].concat();
        request.extend(random.random::<u64>().to_be_bytes());
        match random.random_range(0..4) {
            0 => random.fill_bytes(&mut request),
            1 => request.truncate(random.random_range(0..request.len())),
            2 => request.resize(random.random_range(100..100_000), 0),
            _ => (),
        }
        send(&mut socket, request)?;
    }
    let _ = socket.read();
    Ok(())
}

/// The beginning of a message of a few MiB or far more: one frame, or, as Burn 0.23 has it, a length and then frames of a MiB.
fn large(address: &str, session: &[Vec<u8>], random: &mut StdRng) -> io::Result<()> {
    let mut socket = session_socket(address)?;
    if random.random() {
        send(&mut socket, opening(&session[0], random))?;
    }
    let message_bytes = 1u64 << random.random_range(22..64);
    let count = random.random_range(1..30);
    if random.random() {
        send(&mut socket, [&[1], message_bytes.to_le_bytes().as_slice()].concat())?;
        return (0..count).try_for_each(|_| send(&mut socket, vec![0; 1 << 20]));
    }
    let socket = socket.get_mut();
    socket.write_all(&frame_start(message_bytes))?;
    (0..count).try_for_each(|_| socket.write_all(&[0; 1 << 16]))
}

/// What comes before the payload of a binary message.
fn frame_start(payload_bytes: u64) -> Vec<u8> {
    [&[0x82, 0xff], payload_bytes.to_be_bytes().as_slice(), &[0; 4]].concat()
}

/// Connections that begin a request, or not even that.
pub fn crowd(address: &str, count: usize) -> Vec<TcpStream> {
    let stranger = |at: usize| {
        let mut stranger = socket(address).unwrap();
        // The server may have hung up.
        let _ = stranger.write_all(&b"GET /session HTTP/1.1\r\n"[..at % 24]);
        stranger
    };
    (0..count).map(stranger).collect()
}

/// A session that sends the beginning of a message of a GiB, until it is cut off. Returns how many bytes that took.
pub fn pour(address: &str, first: &[u8], most_bytes: usize) -> usize {
    let mut session = session_socket(address).unwrap();
    send(&mut session, opening(first, &mut StdRng::seed_from_u64(1))).unwrap();
    let socket = session.get_mut();
    socket.set_write_timeout(None).unwrap();
    let start = frame_start(1 << 30);
    let (part, mut sent_bytes) = (vec![0; 1 << 20], 0);
    if socket.write_all(&start).is_ok() {
        while sent_bytes < most_bytes && socket.write_all(&part).is_ok() {
            sent_bytes += part.len();
        }
    }
    sent_bytes
}

/// A session some of whose messages are altered, left out, doubled or exchanged.
fn altered(address: &str, session: &[Vec<u8>], random: &mut StdRng) -> io::Result<()> {
    let mut socket = session_socket(address)?;
    for (at, message) in session.iter().enumerate() {
        let mut message = if at == 0 { opening(message, random) } else { message.clone() };
        // Most sessions are let in.
        let is_altered = random.random_bool(if at == 0 { 0.1 } else { 0.5 });
        if is_altered {
            match random.random_range(0..6) {
                0 => continue,
                1 => message.truncate(random.random_range(0..=message.len())),
                2 => message = session[random.random_range(0..session.len())].clone(),
                3 => random.fill_bytes(&mut message),
                4 => {
                    let from = random.random_range(0..message.len());
                    let end = (from + 8).min(message.len());
                    message[from..end].fill(if random.random() { 0xff } else { 0 });
                }
                _ => {
                    for _ in 0..random.random_range(1..9) {
                        let byte = random.random_range(0..message.len());
                        message[byte] ^= 1 << random.random_range(0..8);
                    }
                }
            }
        }
        send(&mut socket, message)?;
    }
    if random.random() {
        // What the server has to say, or nothing for a while.
        let _ = socket.read();
    }
    Ok(())
}
