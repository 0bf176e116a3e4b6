//! What was measured, as data.

use ringfence_bench::Spread;

use crate::route::Route;

/// One route, each figure over all rounds; `None` where it failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) route: Route,
    /// Megabytes a second.
    pub(crate) download: Option<Spread>,
    /// Microseconds of a connection with a short request.
    pub(crate) request: Option<Spread>,
    /// Milliseconds of all.
    pub(crate) crowd: Option<Spread>,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) off: Spread,
    pub(crate) allow: Spread,
}

#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) rows: Vec<Row>,
    pub(crate) start: Start,
    /// Microseconds.
    pub(crate) lookup: Spread,
    pub(crate) download_bytes: usize,
    pub(crate) crowd_count: usize,
}

impl Figures {
    fn of(&self, route: Route) -> Option<&Row> {
        self.rows.iter().find(|row| row.route == route)
    }

    /// A route's median over another's.
    pub(crate) fn ratio(
        &self,
        route: Route,
        to: Route,
        figure: impl Fn(&Row) -> Option<Spread>,
    ) -> Option<f64> {
        Some(figure(self.of(route)?)?.median / figure(self.of(to)?)?.median)
    }
}
