//! The door of a worker. Burn's server takes any number of connections, waits for ever for what they send, and reads a message of a GiB
//! before it looks at the token in it. So connections come in here, and are strangers until the first message of a session has come, which
//! has the token.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};

/// The longest head of a request or of its answer.
const HEAD_BYTES: u64 = 16 << 10;
/// The longest first message of a session.
const FIRST_MESSAGE_BYTES: u64 = 64 << 10;
/// The longest message of another server that asks for a tensor.
const TENSOR_REQUEST_BYTES: u64 = 4 << 10;
/// The longest control frame of WebSockets.
const CONTROL_BYTES: u64 = 125;
/// What is passed on at once.
const BUFFER_BYTES: usize = 128 << 10;
/// What a thread of a connection needs.
const STACK_BYTES: usize = 256 << 10;
/// A silent client is asked whether it is there after so long, and is gone if it does not answer for as long again.
const VANISHED: Duration = Duration::from_secs(16);
/// How often to look for a client whose server takes nothing.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait if no connection can be accepted, for want of files.
const PAUSE: Duration = Duration::from_millis(100);

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many there may be. If one more comes, the oldest stranger goes.
    pub connections: usize,
    /// How long the first message may take.
    pub handshake: Duration,
}

/// Who is inside.
#[derive(Debug, Default)]
struct Visitors {
    /// How many connections there were.
    counted: u64,
    /// Those that have shown no token, by number, the oldest first.
    strangers: VecDeque<(u64, TcpStream)>,
    sessions: usize,
}

/// An open door.
#[derive(Debug)]
pub struct Door {
    visitors: Mutex<Visitors>,
    limits: Limits,
    server: SocketAddr,
}

/// Where a connection wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// A client's session.
    Session,
    /// Another server that fetches tensors.
    Data,
}

impl Route {
    /// The longest message of a stranger.
    fn most_bytes(self) -> u64 {
        match self {
            Route::Session => FIRST_MESSAGE_BYTES,
            Route::Data => TENSOR_REQUEST_BYTES,
        }
    }
}

impl Door {
    /// Passes connections on to a server.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn open(listener: TcpListener, server: SocketAddr, limits: Limits) -> io::Result<Arc<Self>> {
        let door = Arc::new(Door { visitors: Mutex::default(), limits, server });
        let keeper = door.clone();
        let keep = move || {
            for client in listener.incoming() {
                let Ok(client) = client else {
                    thread::sleep(PAUSE);
                    continue;
                };
                // A connection that cannot be let in is closed.
                let _ = keeper.clone().enter(client);
            }
        };
        thread::Builder::new().name("door".into()).spawn(keep)?;
        Ok(door)
    }

    /// How many sessions there are, of clients that have shown what the server asks for or are about to be sent away.
    pub fn sessions(&self) -> usize {
        self.lock().sessions
    }

    fn lock(&self) -> MutexGuard<'_, Visitors> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread of a connection, if there is room for it.
    fn enter(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        // Burn's server does so with connections of its own.
        set_socket_keepalive(&client, true)?;
        set_tcp_keepidle(&client, VANISHED)?;
        set_tcp_keepintvl(&client, VANISHED / 4)?;
        set_tcp_keepcnt(&client, 4)?;
        let mut visitors = self.lock();
        if visitors.sessions + visitors.strangers.len() >= self.limits.connections {
            let Some((_, oldest)) = visitors.strangers.pop_front() else { return Ok(()) };
            // It may have ended by itself.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = visitors.counted;
        visitors.strangers.push_back((number, client.try_clone()?));
        visitors.counted += 1;
        drop(visitors);
        let visit = Visit { door: self.clone(), number, is_session: false };
        let pass = move || {
            let mut visit = visit;
            // Whatever is wrong with a connection, it ends.
            let _ = visit.pass(client);
        };
        thread::Builder::new().name("connection".into()).stack_size(STACK_BYTES).spawn(pass).map(drop)
    }
}

/// A connection, which is counted until this goes.
struct Visit {
    door: Arc<Door>,
    number: u64,
    is_session: bool,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut visitors = self.door.lock();
        visitors.sessions -= usize::from(self.is_session);
        visitors.strangers.retain(|(number, _)| *number != self.number);
    }
}

impl Visit {
    /// Passes everything on between the client and the server, as far as it is allowed.
    fn pass(&mut self, client: TcpStream) -> io::Result<()> {
        let end = Instant::now() + self.door.limits.handshake;
        let stranger = Timed { socket: client.try_clone()?, end: Some(end) };
        let mut requests = BufReader::with_capacity(BUFFER_BYTES, stranger);
        let head = read_head(&mut requests)?;
        let route = route(&head)?;
        let server = TcpStream::connect(self.door.server)?;
        server.set_nodelay(true)?;
        server.set_write_timeout(Some(LOOK))?;
        server.set_read_timeout(Some(self.door.limits.handshake))?;
        (&server).write_all(&head)?;
        let mut answers = BufReader::with_capacity(BUFFER_BYTES, server.try_clone()?);
        let answer = read_head(&mut answers)?;
        (&client).write_all(&answer)?;
        if !answer.starts_with(b"HTTP/1.1 101 ") {
            return Ok(());
        }
        server.set_read_timeout(None)?;
        thread::scope(|scope| {
            let back = thread::Builder::new().name("answers".into()).stack_size(STACK_BYTES);
            back.spawn_scoped(scope, || {
                let _ = io::copy(&mut answers, &mut &client);
                let _ = client.shutdown(Shutdown::Both);
            })?;
            let mut passing = Passing { server: &server, client: &client };
            let passed = self.pass_requests(route, &mut requests, &mut passing);
            // A session that waits for a transfer would keep a half of its connection open for ever.
            let _ = server.shutdown(Shutdown::Both);
            passed
        })
    }

    fn pass_requests(
        &mut self,
        route: Route,
        requests: &mut BufReader<Timed>,
        server: &mut Passing,
    ) -> io::Result<()> {
        let most_bytes = route.most_bytes();
        if !pass_message(requests, server, most_bytes)? {
            return Ok(());
        }
        requests.get_mut().wait_for_ever()?;
        match route {
            Route::Session => {
                self.begin_session();
                io::copy(requests, server).map(drop)
            }
            // Other servers show no token.
            Route::Data => {
                while pass_message(requests, server, most_bytes)? {}
                Ok(())
            }
        }
    }

    /// The first message of a session has come.
    fn begin_session(&mut self) {
        self.is_session = true;
        let mut visitors = self.door.lock();
        visitors.sessions += 1;
        visitors.strangers.retain(|(number, _)| *number != self.number);
    }
}

/// A client's socket, and until when it may be waited for.
struct Timed {
    socket: TcpStream,
    end: Option<Instant>,
}

impl Timed {
    fn wait_for_ever(&mut self) -> io::Result<()> {
        self.end = None;
        self.socket.set_read_timeout(None)
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(end) = self.end {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
        }
        self.socket.read(buffer)
    }
}

/// What goes on to a server, which may not take it for long.
struct Passing<'a> {
    server: &'a TcpStream,
    client: &'a TcpStream,
}

impl Write for Passing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.server.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && !has_hung_up(self.client)? => (),
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a client is gone, even if not all is read that it has sent.
#[cfg(target_os = "linux")]
fn has_hung_up(client: &TcpStream) -> io::Result<bool> {
    let mut seen = [PollFd::new(client, PollFlags::RDHUP)];
    Ok(poll(&mut seen, Some(&Timespec::default()))? > 0)
}

#[cfg(not(target_os = "linux"))]
fn has_hung_up(_: &TcpStream) -> io::Result<bool> {
    Ok(false)
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// The head of a request or of an answer, to the empty line.
fn read_head(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let (mut head, mut from) = (Vec::new(), from.take(HEAD_BYTES));
    loop {
        let line_bytes = from.read_until(b'\n', &mut head)?;
        // Nothing more comes, or no more may come.
        if line_bytes == 0 || !head.ends_with(b"\r\n") {
            return Err(refused("no head"));
        }
        if line_bytes == 2 {
            return Ok(head);
        }
    }
}

/// Where a request goes. It must have no body, in which there could be another request, and no origin: browsers name the web page that
/// connects, and Burn's clients are programs.
fn route(head: &[u8]) -> io::Result<Route> {
    let head = str::from_utf8(head).map_err(|_| refused("no text"))?.to_ascii_lowercase();
    let mut lines = head.lines();
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    if lines.any(|line| line.starts_with("content-length") || line.starts_with("transfer-encoding")) {
        return Err(refused("a body"));
    }
    if head.lines().any(|line| line.starts_with("origin:")) {
        return Err(refused("a web page"));
    }
    match target {
        "/session" => Ok(Route::Session),
        "/data" => Ok(Route::Data),
        _ => Err(refused("no such route")),
    }
}

/// Passes a message on, frame by frame. `false` if there is none any more.
fn pass_message(from: &mut impl BufRead, to: &mut impl Write, most_bytes: u64) -> io::Result<bool> {
    let mut left_bytes = most_bytes;
    loop {
        if from.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let mut start = [0; 2];
        from.read_exact(&mut start)?;
        let (is_last, is_data) = (start[0] & 0x80 != 0, start[0] & 0x08 == 0);
        if start[1] & 0x80 == 0 {
            return Err(refused("a frame that is not masked"));
        }
        // The length, if it is not in the start, and the mask.
        let (length_bytes, short) = match start[1] & 0x7f {
            126 => (2, 0),
            127 => (8, 0),
            length => (0, u64::from(length)),
        };
        let mut rest = [0; 12];
        let rest = &mut rest[..length_bytes + 4];
        from.read_exact(rest)?;
        let long = rest[..length_bytes].iter().fold(0, |length, &byte| (length << 8) | u64::from(byte));
        let payload_bytes = short + long;
        // Pings and the like are no part of the message.
        let most_bytes = if is_data { left_bytes } else { CONTROL_BYTES };
        if payload_bytes > most_bytes {
            return Err(refused("too long a message"));
        }
        left_bytes -= if is_data { payload_bytes } else { 0 };
        to.write_all(&start)?;
        to.write_all(rest)?;
        let passed_bytes = io::copy(&mut from.by_ref().take(payload_bytes), to)?;
        if passed_bytes < payload_bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if is_last && is_data {
            return Ok(true);
        }
    }
}

/// Passes on what a stranger sends until the first message has come: [`Visit::pass`] without sockets.
#[cfg(fuzzing)]
pub fn pass_stranger(requests: &mut impl BufRead, server: &mut impl Write) -> io::Result<bool> {
    let head = read_head(requests)?;
    let route = route(&head)?;
    server.write_all(&head)?;
    pass_message(requests, server, route.most_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENING: &str = "GET /session HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n";
    const DATA: &str = "GET /data HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n";
    const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    /// A door before a server that answers each request and sends everything back that comes afterwards.
    fn door(limits: Limits) -> (Arc<Door>, SocketAddr) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        thread::spawn(move || {
            for client in server.incoming().map(Result::unwrap) {
                thread::spawn(move || {
                    let mut requests = BufReader::new(client.try_clone().unwrap());
                    let head = read_head(&mut requests).unwrap();
                    let is_upgrade = head.windows(9).any(|bytes| bytes == b"websocket");
                    (&client)
                        .write_all(if is_upgrade { SWITCHED } else { b"HTTP/1.1 400 No\r\n\r\n" })
                        .unwrap();
                    let _ = io::copy(&mut requests, &mut &client);
                });
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let outside = listener.local_addr().unwrap();
        (Door::open(listener, address, limits).unwrap(), outside)
    }

    fn patient() -> (Arc<Door>, SocketAddr) {
        door(Limits { connections: 16, handshake: Duration::from_secs(60) })
    }

    fn client(address: SocketAddr, sent: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.write_all(sent).unwrap();
        client
    }

    /// A client that the server has answered.
    fn connected(address: SocketAddr, opening: &str) -> TcpStream {
        let mut client = client(address, opening.as_bytes());
        receive(&mut client, SWITCHED);
        client
    }

    fn receive(client: &mut TcpStream, expected: &[u8]) {
        let mut received = vec![0; expected.len()];
        client.read_exact(&mut received).unwrap();
        assert!(received == expected);
    }

    /// Whether the door closes the connection. It may do so before it has read all.
    fn is_sent_away(mut client: TcpStream) -> bool {
        let mut rest = Vec::new();
        match client.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// A masked frame.
    fn frame(first: u8, payload_bytes: usize) -> Vec<u8> {
        let mut frame = vec![first, 0xff];
        frame.extend((payload_bytes as u64).to_be_bytes());
        frame.resize(frame.len() + 4 + payload_bytes, 7);
        frame
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_session_may_send_anything_after_a_first_message() {
        let (door, address) = patient();
        let mut client = connected(address, OPENING);
        assert_eq!(door.sessions(), 0);
        // A ping, and a message in two frames.
        let first = [vec![0x89, 0x80, 1, 2, 3, 4], frame(0x02, 9), frame(0x80, 60_000)].concat();
        client.write_all(&first).unwrap();
        receive(&mut client, &first);
        wait_until(|| door.sessions() == 1);
        let mut other = client.try_clone().unwrap();
        let more = frame(0x82, 1 << 20);
        thread::scope(|scope| {
            scope.spawn(|| other.write_all(&more).unwrap());
            receive(&mut client, &more);
        });
        drop((client, other));
        wait_until(|| door.sessions() == 0);
    }

    #[test]
    fn strangers_that_take_too_much_are_sent_away() {
        let (door, address) = patient();
        for head in [
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET http://x/data HTTP/1.1\r\nUpgrade: websocket\r\n\r\n".to_owned(),
            OPENING.replace("\r\n\r\n", "\r\ncontent-LENGTH: 5\r\n\r\n"),
            OPENING.replace("\r\n\r\n", "\r\nORIGIN: http://a.page\r\n\r\n"),
            OPENING.replace("websocket", "nothing"),
            format!("GET /{} HTTP/1.1\r\n\r\n", "session".repeat(9_000)),
        ] {
            assert!(is_sent_away(client(address, head.as_bytes())), "{head}");
        }
        let unmasked = vec![0x82, 0x05, 1, 2, 3, 4, 5];
        let in_parts = [frame(0x02, 40_000), frame(0x80, 40_000)].concat();
        for first in [unmasked, frame(0x89, 126), frame(0x82, 70_000)[..14].to_vec(), in_parts] {
            let mut client = connected(address, OPENING);
            client.write_all(&first).unwrap();
            assert!(is_sent_away(client));
        }
        assert_eq!(door.sessions(), 0);
    }

    #[test]
    fn a_head_that_does_not_end_is_refused() {
        let line = "Host: x\r\n";
        let longest = line.repeat(HEAD_BYTES as usize / line.len() - 1) + "X: 1\r\n";
        let longest = "A".repeat(HEAD_BYTES as usize - longest.len()) + &longest;
        assert_eq!(longest.len() as u64, HEAD_BYTES);
        for head in
            ["", "GET /session HTTP/1.1", "GET /session HTTP/1.1\r\n", &longest, &(longest.clone() + "\r\n")]
        {
            assert!(read_head(&mut head.as_bytes()).is_err());
        }
        assert!(read_head(&mut OPENING.as_bytes()).is_ok());
    }

    #[test]
    fn other_servers_ask_in_short_messages() {
        let (door, address) = patient();
        let mut client = connected(address, DATA);
        for _ in 0..3 {
            let request = frame(0x82, 3_000);
            client.write_all(&request).unwrap();
            receive(&mut client, &request);
        }
        assert_eq!(door.sessions(), 0, "they are no clients");
        client.write_all(&frame(0x82, 5_000)).unwrap();
        assert!(is_sent_away(client));
    }

    #[test]
    fn a_stranger_has_so_long_and_no_longer() {
        let (_, address) = door(Limits { connections: 16, handshake: Duration::from_millis(50) });
        for sent in ["", "GET /session HT", OPENING] {
            assert!(is_sent_away(client(address, sent.as_bytes())), "{sent}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_client_that_is_gone_is_noticed_although_the_server_takes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let outside = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (outside, listener.accept().unwrap().0)
        };
        let ((mut outside, client), (server, _takes_nothing)) = (connect(), connect());
        server.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
        assert!(!has_hung_up(&client).unwrap());
        outside.write_all(b"not read").unwrap();
        thread::scope(|scope| {
            let mut passing = Passing { server: &server, client: &client };
            let passed = scope.spawn(move || passing.write_all(&vec![0; 64 << 20]));
            thread::sleep(Duration::from_millis(100));
            assert!(!passed.is_finished(), "the client may wait");
            drop(outside);
            assert!(passed.join().unwrap().is_err());
        });
    }

    #[test]
    fn the_oldest_stranger_makes_room_and_sessions_do_not() {
        let (door, address) = door(Limits { connections: 2, handshake: Duration::from_secs(60) });
        let session = || {
            let mut client = connected(address, OPENING);
            let first = frame(0x82, 9);
            client.write_all(&first).unwrap();
            receive(&mut client, &first);
            client
        };
        let mut clients = vec![session()];
        wait_until(|| door.sessions() == 1);
        let strangers: Vec<TcpStream> = (0..9).map(|_| client(address, b"GET ")).collect();
        clients.push(session());
        strangers.into_iter().for_each(|stranger| assert!(is_sent_away(stranger)));
        wait_until(|| door.sessions() == 2);
        assert!(is_sent_away(client(address, b"GET ")));
        for mut client in clients {
            client.write_all(b"more").unwrap();
            receive(&mut client, b"more");
        }
    }
}
