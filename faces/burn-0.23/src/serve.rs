//! What `overcommit-serve-023` is.

use std::process::ExitCode;

use burn_overcommit::serve::{self, Worker};
use burn_remote::server::{BackendServer, ServeError, TokenAuthorizer, WebSocketTransport};

use crate::Overcommit;
use crate::convert::Member;

/// Hosts devices for Burn's remote client, as the command line says.
#[doc(hidden)]
pub fn main() -> ExitCode {
    serve::run(host)
}

fn host(worker: Worker) -> Result<(), ServeError> {
    let server = BackendServer::<Overcommit>::new([Member(worker.device)]);
    let authorizer = TokenAuthorizer::new(worker.token).expect("a token is not empty");
    server.with_authorizer(authorizer).serve(WebSocketTransport::from_listener(worker.listener))
}
