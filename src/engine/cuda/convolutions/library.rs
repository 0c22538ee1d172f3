//! The calls of cuDNN: plans for each convolution, and their execution.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::cudnn::sys;
use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnBackendHeurMode_t as Heuristic;

use super::descriptor::{Address, Descriptor, Note};
use super::graph::{Configuration, Graph, IMAGE, RESULT, WEIGHT};
use super::problem::{Pass, Problem};
use crate::disk_cache::DiskCache;
use crate::engine::cuda::driver::{Called, Context, Stream};
use crate::engine::cuda::library::{Remembered, call, owned};
use crate::engine::{Algorithm, Span};
use crate::messages;
use crate::op::Dtype;

/// Workspace of the default algorithm beside the operands, in quarters of them: Winograd's transformed tiles take up to 3.1 times as
/// much, channels that are padded for tensor cores up to 2.7 times.
const WORKSPACE_QUARTERS: usize = 13;
/// Where that is more than the operands take themselves, it ends here.
const MAX_WORKSPACE_BYTES: usize = 1 << 30;
/// Engines that are kept for a convolution.
const MAX_WAYS: usize = 8;
/// A search for Winograd's engine ends after the plan during which this time is over: some engines compile code for a plan.
const SEARCH_LIMIT: Duration = Duration::from_millis(500);

owned! {
    Handle(sys::cudnnHandle_t), cudnnCreate(), cudnnDestroy;
}

/// One of the library's algorithms: an engine with its parameters, ready to run.
#[derive(Debug)]
struct Way {
    plan: Descriptor,
    workspace_bytes: usize,
    configuration: Configuration,
}

/// How a convolution is done.
#[derive(Debug)]
struct Plan {
    /// The fastest first, as far as the library knows. Not empty.
    ways: Vec<Way>,
    /// Which of them is the default.
    default: usize,
    _graph: Graph,
}

impl Plan {
    /// The place of an algorithm: 0 is the default, then come the library's in order.
    fn place(&self, algorithm: Algorithm) -> Option<usize> {
        let place = usize::from(algorithm.0).checked_sub(1).unwrap_or(self.default);
        (place < self.ways.len()).then_some(place)
    }
}

/// Where the operands of a convolution are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    /// In the op's order.
    pub inputs: [u64; 2],
    pub out: u64,
    pub workspace: Span,
}

/// The library, and what it said so far.
#[derive(Debug)]
pub(super) struct Cudnn {
    tf32: bool,
    /// The version of the library and the device's name, which searches depend on.
    basis: String,
    /// The results of searches.
    searches: DiskCache,
    remembered: Remembered<Handle, Problem, Plan>,
}

impl Cudnn {
    /// With the library open.
    pub fn new(context: &Arc<Context>, tf32: bool) -> Called<Self> {
        context.enter()?;
        // SAFETY: the library is open.
        let version = unsafe { sys::cudnnGetVersion() };
        let basis = format!("cuDNN {version}, {}", context.device().name()?);
        let remembered = Remembered::new("cuDNN", context, Handle::create()?);
        Ok(Cudnn { tf32, basis, searches: DiskCache::of_user("convolutions"), remembered })
    }

    fn with_plan<R>(&self, problem: &Problem, use_plan: impl FnOnce(&Handle, &Plan) -> R) -> Option<R> {
        self.remembered.with(problem, |handle| self.plan(handle, problem), use_plan)
    }

    /// How many algorithms there are.
    pub fn ways(&self, problem: &Problem) -> usize {
        self.with_plan(problem, |_, plan| plan.ways.len()).unwrap_or(0)
    }

    pub fn workspace_bytes(&self, problem: &Problem, algorithm: Algorithm) -> Option<usize> {
        let bytes = |plan: &Plan| plan.place(algorithm).map(|place| plan.ways[place].workspace_bytes);
        self.with_plan(problem, |_, plan| bytes(plan)).flatten()
    }

    /// How many algorithms the library puts before this one.
    pub fn rank(&self, problem: &Problem, algorithm: Algorithm) -> Option<usize> {
        self.with_plan(problem, |_, plan| plan.place(algorithm)).flatten()
    }

    /// All but the default.
    pub fn alternatives(&self, problem: &Problem) -> Vec<Algorithm> {
        let others = |plan: &Plan| {
            let places = (0..plan.ways.len()).filter(|&place| place != plan.default);
            places.map(|place| Algorithm(place as u8 + 1)).collect()
        };
        self.with_plan(problem, |_, plan| others(plan)).unwrap_or_default()
    }

    /// Whether an engine gives the same bits every time, with sums of all bits of the operands.
    fn may_use(&self, engine: &Configuration, dtype: Dtype) -> bool {
        let is_in_fewer_bits = engine.has(Note::TENSOR_CORES) || engine.has(Note::INPUTS_IN_FEWER_BITS);
        let is_exact = dtype != Dtype::F32 || self.tf32 || !is_in_fewer_bits;
        is_exact && !engine.has(Note::NOT_REPEATABLE) && !engine.has(Note::SUMS_IN_FEWER_BITS)
    }

    fn plan(&self, handle: &Handle, problem: &Problem) -> Called<Plan> {
        let graph = Graph::new(handle.0, problem)?;
        let (mut ways, mut error) = (Vec::new(), "no algorithm gives the same bits every time".to_owned());
        for heuristic in [Heuristic::CUDNN_HEUR_MODE_A, Heuristic::CUDNN_HEUR_MODE_FALLBACK] {
            match graph.configurations(heuristic) {
                Ok(found) => {
                    for engine in found.into_iter().filter(|engine| self.may_use(engine, problem.dtype)) {
                        add(&mut ways, handle, engine);
                    }
                }
                Err(said) => error = said,
            }
        }
        if problem.dtype == Dtype::F32 && !self.tf32 {
            self.put_winograd_first(&mut ways, handle, &graph, problem);
        }
        let default = default_way(&ways, problem).ok_or(error)?;
        Ok(Plan { ways, default, _graph: graph })
    }

    /// Puts Winograd's algorithm first, with transformed tiles in memory. Where it fits, others took up to 2.8 times as long on an H100
    /// (cuDNN 9.14, `benches/results/gpu`). The library's heuristics leave it out of two passes, and it does not say which of its
    /// engines that is: their workspace does.
    fn put_winograd_first(&self, ways: &mut Vec<Way>, handle: &Handle, graph: &Graph, problem: &Problem) {
        if problem.winograd_bytes().is_none() {
            return;
        }
        if !ways.iter().any(|way| way.is_winograd(problem)) {
            ways.extend(self.winograd(ways, handle, graph, problem));
        }
        ways.sort_by_key(|way| !way.is_winograd(problem));
    }

    /// Winograd's engine, if it is not among the `named` ones: found on disk, or else searched for, which is noted there.
    fn winograd(&self, named: &[Way], handle: &Handle, graph: &Graph, problem: &Problem) -> Option<Way> {
        let key = format!("{}: {problem:?}", self.basis).into_bytes();
        let winograd =
            |engine: Configuration| Way::new(handle, engine).ok().filter(|way| way.is_winograd(problem));
        match self.searches.read(&key) {
            Some(found) if found.is_empty() => return None,
            Some(found) => {
                let engine =
                    found.try_into().ok().and_then(|bytes| graph.engine(i64::from_le_bytes(bytes)).ok());
                if let Some(way) = engine.and_then(winograd) {
                    return Some(way);
                }
            }
            None => {}
        }
        let found = self.search(named, handle, graph, problem).ok()?;
        let bytes = found.as_ref().map_or(Vec::new(), |way| way.configuration.engine.to_le_bytes().into());
        if let Err(error) = self.searches.write(&key, &bytes) {
            messages::tell(
                log::Level::Debug,
                format_args!("a choice of cuDNN's engines is not kept: {error}"),
            );
        }
        found
    }

    /// Makes plans of the engines that the heuristics did not name, until one is Winograd's or the time is over.
    ///
    /// # Errors
    /// A failure that may not happen again.
    fn search(
        &self,
        named: &[Way],
        handle: &Handle,
        graph: &Graph,
        problem: &Problem,
    ) -> Called<Option<Way>> {
        let begin = Instant::now();
        let is_named = |engine: i64| named.iter().any(|way| way.configuration.engine == engine);
        let engines = graph.engines()?.filter(|engine| !is_named(engine.engine));
        for engine in engines.filter(|engine| self.may_use(engine, problem.dtype)) {
            if begin.elapsed() >= SEARCH_LIMIT {
                let message = format_args!(
                    "cuDNN took more than {SEARCH_LIMIT:?} for plans of {problem:?}, of which Winograd's may be missing"
                );
                messages::tell(log::Level::Info, message);
                break;
            }
            match Way::new(handle, engine) {
                Ok(way) if way.is_winograd(problem) => return Ok(Some(way)),
                Err(error) if !error.contains("NOT_SUPPORTED") => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Puts a convolution into a stream.
    ///
    /// # Safety
    /// The tensors of the problem are at these addresses, the workspace is as large as
    /// [`workspace_bytes`](Cudnn::workspace_bytes) says, and all is as
    /// [`Engine::launch`](crate::engine::Engine::launch) asks.
    pub unsafe fn run(
        &self,
        stream: &Stream,
        problem: &Problem,
        algorithm: Algorithm,
        at: &Addresses,
    ) -> Called<()> {
        let run = |handle: &Handle, plan: &Plan| {
            let place = plan.place(algorithm).ok_or("cuDNN has no such algorithm")?;
            let pack = pack(problem.pass, at)?;
            // SAFETY: the stream is of the handle's context, and the caller's.
            unsafe {
                call!(cudnnSetStream(handle.0, stream.raw().cast()))?;
                plan.ways[place].plan.execute(handle.0, &pack)
            }
        };
        self.with_plan(problem, run).ok_or("cuDNN cannot do this convolution")?
    }
}

impl Way {
    fn new(handle: &Handle, configuration: Configuration) -> Called<Self> {
        let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[handle.0])?;
        plan.set_descriptor(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &configuration.descriptor)?;
        let plan = plan.finalize()?;
        let bytes: Vec<i64> = plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1)?;
        let workspace_bytes = bytes.first().and_then(|&bytes| usize::try_from(bytes).ok());
        let workspace_bytes = workspace_bytes.ok_or("no workspace is known")?;
        Ok(Way { plan, workspace_bytes, configuration })
    }

    fn is_winograd(&self, problem: &Problem) -> bool {
        problem.is_winograd_workspace(self.workspace_bytes)
    }
}

/// Adds an engine if it can compute the convolution after all, which some deny only now. The same engine with other parameters, which
/// the library takes to be slower, is worth it only with less workspace.
fn add(ways: &mut Vec<Way>, handle: &Handle, engine: Configuration) {
    let Ok(new) = Way::new(handle, engine) else { return };
    let is_worth_it = |way: &Way| {
        way.configuration.engine != new.configuration.engine || way.workspace_bytes > new.workspace_bytes
    };
    if ways.len() < MAX_WAYS && ways.iter().all(is_worth_it) {
        ways.push(new);
    }
}

/// The addresses of a convolution's tensors.
fn pack(pass: Pass, at: &Addresses) -> Called<Descriptor> {
    let ([first, second], out) = (at.inputs, at.out);
    let names = match pass {
        Pass::Forward => [IMAGE, WEIGHT, RESULT],
        Pass::Input => [WEIGHT, RESULT, IMAGE],
        Pass::Weight => [IMAGE, RESULT, WEIGHT],
    };
    let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &names)?;
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &[first, second, out].map(Address))?;
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[Address(at.workspace.address)])?;
    pack.finalize()
}

/// The first, by the library's order, that takes no more workspace than it may; else that of the smallest. It follows from the shape
/// alone.
fn default_way(ways: &[Way], problem: &Problem) -> Option<usize> {
    let limit_bytes = workspace_limit(problem.operands_bytes());
    let fits = ways.iter().position(|way| way.workspace_bytes <= limit_bytes);
    fits.or_else(|| (0..ways.len()).min_by_key(|&place| ways[place].workspace_bytes))
}

/// Workspace that an op with so large operands may take. As much as they do is always in order: then an op's need doubles at most.
fn workspace_limit(operands_bytes: usize) -> usize {
    operands_bytes.max((WORKSPACE_QUARTERS * operands_bytes / 4).min(MAX_WORKSPACE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_bounded_by_the_operands() {
        let mib = |count: usize| count << 20;
        assert_eq!(workspace_limit(mib(16)), mib(52));
        assert_eq!(workspace_limit(mib(500)), mib(1024));
        assert_eq!(workspace_limit(mib(3000)), mib(3000));
    }
}
