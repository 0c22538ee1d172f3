//! The messages between nodes and the orchestrator: MessagePack over TCP.

use std::io::{self, Read, Write};

use rmp_serde::decode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A node's message.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// It takes part. The first message.
    Join {
        /// Which node it is.
        rank: usize,
        /// How many it believes there are.
        nodes: usize,
    },
    /// Its numbers, to be added to those of the other nodes.
    Add {
        /// The step that it is at.
        step: usize,
        /// The numbers.
        numbers: Numbers,
    },
    /// Its training is done. The last message.
    Leave,
}

/// The orchestrator's message.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The sum of all nodes' numbers.
    Sum(Numbers),
    /// The nodes cannot go on, for this reason. The last message.
    Failed(String),
}

/// Numbers as bytes, little-endian.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numbers(#[serde(with = "serde_bytes")] Vec<u8>);

impl Numbers {
    /// These numbers.
    pub fn new(numbers: &[f32]) -> Self {
        Numbers(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    /// The numbers. Bytes that make no whole number are left out.
    pub fn to_vec(&self) -> Vec<f32> {
        let (numbers, _) = self.0.as_chunks();
        numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }
}

/// Sends a message.
///
/// # Errors
/// A connection that is lost, or does not take the bytes in time.
pub fn send(socket: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = rmp_serde::to_vec(message).expect("a message can be written");
    socket.write_all(&bytes)
}

/// Receives a message, of which it reads no more than there has come.
///
/// # Errors
/// A connection that is lost, nothing in time, or bytes that are no such message.
pub fn receive<M: DeserializeOwned>(socket: &mut impl Read) -> io::Result<M> {
    rmp_serde::from_read(socket).map_err(|error| match error {
        decode::Error::InvalidMarkerRead(error) | decode::Error::InvalidDataRead(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    })
}
