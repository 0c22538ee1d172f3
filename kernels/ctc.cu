// The connectionist temporal classification loss (Graves, Fernandez, Gomez, Schmidhuber: Connectionist Temporal
// Classification, ICML 2006, sections 4.1 and 4.2): minus the logarithm of the probability that a sequence, once repeats
// and then blanks are left out, is its target. In logarithms throughout. A sequence is one item of work.
#include "math.cuh"
#include "views.cuh"

namespace {
struct Ctc {
  void* out;  // losses; or their gradients, by step, sequence and class
  const void* log_probs;
  const i64* targets;
  const i64* input_lengths;
  const i64* target_lengths;
  void* scratch;  // `scratch_each` numbers for each sequence
  i64* fault;
  u64 chunk;  // sequences per block
  u64 scratch_each;
  u64 steps, sequences, classes, labels;
  u64 blank;
  i64 log_probs_strides[3];  // by step, sequence and class
  i64 targets_strides[2];
  i64 lengths_strides[2];  // of input lengths and target lengths
};

// ln(e^a + e^b)
template <class C> DEV C add_logs(C a, C b) {
  const C larger = a > b ? a : b, smaller = a > b ? b : a;
  return larger == lowest<C>() ? larger : larger + Log1p::f(Exp::f(smaller - larger));
}

// One sequence, and the places of its target: a blank before, between and after the labels. `alpha[s]` is the logarithm
// of the probability of having come to place `s` by some step; `beta[s]`, of coming from there to the end.
template <class T> struct Sequence {
  const T* log_probs;
  const i64* targets;
  i64 step, class_step, label_step, blank;
  u64 steps, places;
};

// Whether the length and the labels of the target make sense.
template <class T> DEV bool open(const Ctc& args, u64 n, Sequence<T>& q) {
  const i64 labels = args.target_lengths[i64(n) * args.lengths_strides[1]];
  const i64 steps = args.input_lengths[i64(n) * args.lengths_strides[0]];
  q.log_probs = static_cast<const T*>(args.log_probs) + i64(n) * args.log_probs_strides[1];
  q.targets = args.targets + i64(n) * args.targets_strides[0];
  q.step = args.log_probs_strides[0], q.class_step = args.log_probs_strides[2];
  q.label_step = args.targets_strides[1], q.blank = i64(args.blank);
  q.steps = steps < 0 ? 0 : least(u64(steps), args.steps);
  q.places = 2 * u64(labels) + 1;
  if (!in_range(labels, args.labels + 1, args.fault)) return false;
  for (i64 k = 0; k < labels; ++k)
    if (!in_range(q.targets[k * q.label_step], args.classes, args.fault)) return false;
  return true;
}

template <class T> DEV i64 label(const Sequence<T>& q, u64 s) {
  return s % 2 ? q.targets[i64(s / 2) * q.label_step] : q.blank;
}
template <class T> DEV Compute<T> log_prob(const Sequence<T>& q, u64 t, u64 s) {
  return widen(q.log_probs[i64(t) * q.step + label(q, s) * q.class_step]);
}
// Whether place `s` may follow the one two before it, without the blank between.
template <class T> DEV bool skips(const Sequence<T>& q, u64 s) {
  return s >= 2 && s < q.places && label(q, s) != q.blank && label(q, s) != label(q, s - 2);
}

// Backwards over the places, so that `to` may be `from`.
template <class T, class C> DEV void forward(const Sequence<T>& q, u64 t, const C* from, C* to) {
  for (u64 s = q.places; s-- > 0;) {
    C sum = t == 0 ? (s < 2 ? C(0) : lowest<C>()) : from[s];
    if (t > 0 && s > 0) sum = add_logs(sum, from[s - 1]);
    if (t > 0 && skips(q, s)) sum = add_logs(sum, from[s - 2]);
    to[s] = sum + log_prob(q, t, s);
  }
}

template <class T, class C> DEV void backward(const Sequence<T>& q, u64 t, C* beta) {
  const bool last = t + 1 == q.steps;
  for (u64 s = 0; s < q.places; ++s) {
    C sum = last ? (s + 2 >= q.places ? C(0) : lowest<C>()) : beta[s];
    if (!last && s + 1 < q.places) sum = add_logs(sum, beta[s + 1]);
    if (!last && skips(q, s + 2)) sum = add_logs(sum, beta[s + 2]);
    beta[s] = sum + log_prob(q, t, s);
  }
}

// Of the target, at the last step.
template <class T, class C> DEV C total(const Sequence<T>& q, const C* alpha) {
  if (q.steps == 0) return q.places == 1 ? C(0) : lowest<C>();
  const C blank = alpha[q.places - 1];
  return q.places == 1 ? blank : add_logs(blank, alpha[q.places - 2]);
}

template <class T> DEV void loss(const Ctc& args) {
  typedef Compute<T> C;
  const Range range = block_range(args.sequences, args.chunk);
  for (u64 n = range.begin + threadIdx.x; n < range.end; n += blockDim.x) {
    Sequence<T> q;
    if (!open(args, n, q)) continue;
    C* alpha = static_cast<C*>(args.scratch) + n * args.scratch_each;
    for (u64 t = 0; t < q.steps; ++t) forward(q, t, alpha, alpha);
    static_cast<T*>(args.out)[n] = narrow<T>(-total(q, alpha));
  }
}

// With respect to each log_prob: minus the probability that the step is at a place of the class, given the target.
template <class T> DEV void gradient(const Ctc& args) {
  typedef Compute<T> C;
  const Range range = block_range(args.sequences, args.chunk);
  for (u64 n = range.begin + threadIdx.x; n < range.end; n += blockDim.x) {
    Sequence<T> q;
    if (!open(args, n, q)) continue;
    const u64 pitch = 2 * args.labels + 1;
    C* alpha = static_cast<C*>(args.scratch) + n * args.scratch_each;
    C *beta = alpha + args.steps * pitch, *sums = beta + pitch;
    for (u64 t = 0; t < q.steps; ++t) forward(q, t, alpha + (t - 1) * pitch, alpha + t * pitch);
    const C likelihood = q.steps == 0 ? lowest<C>() : total(q, alpha + (q.steps - 1) * pitch);
    for (u64 t = args.steps; t-- > 0;) {
      for (u64 k = 0; k < args.classes; ++k) sums[k] = 0;
      // A target that cannot be has no gradient.
      if (t < q.steps && likelihood != lowest<C>()) {
        backward(q, t, beta);
        for (u64 s = 0; s < q.places; ++s) {
          const C both = alpha[t * pitch + s] + beta[s];
          if (both != lowest<C>()) sums[label(q, s)] -= Exp::f(both - log_prob(q, t, s) - likelihood);
        }
      }
      T* out = static_cast<T*>(args.out) + (t * args.sequences + n) * args.classes;
      for (u64 k = 0; k < args.classes; ++k) out[k] = narrow<T>(sums[k]);
    }
  }
}
}  // namespace

#define CTC(T, ...)                                   \
  KERNEL(ctc_loss_##T, Ctc) { loss<T>(args); }         \
  KERNEL(ctc_gradient_##T, Ctc) { gradient<T>(args); }
FOR_FLOATS(CTC, )

EXPORT_TABLE(ctc)
