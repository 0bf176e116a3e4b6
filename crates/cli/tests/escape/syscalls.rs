//! Every closed system call by its number, with arguments that can do nothing; made from the reviewed table.

use ringfence_testing::closed_calls;

use crate::attempt::{Twin, attempt};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    closed_calls()
        .into_iter()
        .map(|call| {
            attempt(format!("closed-{}", call.name), call.reason)
                .probe(["syscall", &call.number.to_string()])
                .denied(call.name)
                .twin(Twin::ReachesKernel)
        })
        .collect()
}
