// Fourier transforms of real rows whose length n is a power of two, and back. The n reals are n / 2 complex numbers, the
// even ones real and the odd ones imaginary, whose transform of m = n / 2 gives that of the reals (Press et al.,
// Numerical Recipes, 12.3, "FFT of real functions"). The complex transform is Cooley and Tukey's (1965) of radix 4 in
// Stockham's order (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7), which needs a second buffer
// and no bit reversal: most of its loops run along neighbours. Halves are computed in f32.
#include "math.cuh"
#include "views.cuh"

namespace {
struct Fourier {
  void* out[2];      // real and imaginary part, or the signal
  const void* x[2];  // the signal, or real and imaginary part
  void* twiddles;    // see `Twiddles`
  void* buffers;     // four of n / 2 per block
  u64 chunk;         // rows per block
  u64 length;        // n
  u64 given;         // elements of x along the axis; what is missing is zero
  i64 step_x[2], step_out;
  Space space;       // of the rows: in both x, and in out
};

template <class C> struct Complex { C re, im; };
// Numbers with their real and imaginary parts apart.
template <class C> struct Parts { C *re, *im; };
template <class C> DEV Complex<C> at(const Parts<C>& z, u64 k) { return {z.re[k], z.im[k]}; }
template <class C> DEV void put(const Parts<C>& z, u64 k, Complex<C> x) { z.re[k] = x.re, z.im[k] = x.im; }
template <class C> DEV Complex<C> operator+(Complex<C> a, Complex<C> b) { return {a.re + b.re, a.im + b.im}; }
template <class C> DEV Complex<C> operator-(Complex<C> a, Complex<C> b) { return {a.re - b.re, a.im - b.im}; }
template <class C> DEV Complex<C> operator*(Complex<C> a, Complex<C> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class C> DEV Complex<C> conjugate(Complex<C> a) { return {a.re, -a.im}; }
template <class C> DEV Complex<C> times_i(Complex<C> a) { return {-a.im, a.re}; }
template <class C> DEV Complex<C> half(Complex<C> a) { return {C(0.5) * a.re, C(0.5) * a.im}; }

// Powers of w = exp(-2 pi i / n): `real[k]` is w^k for k <= m / 2, `quarter[j - 1][p]` is w^(2 j p) for p < m / 4. They
// lie one after the other, the real parts of each before its imaginary parts.
template <class C> struct Twiddles {
  Parts<C> real, quarter[3];
  DEV Twiddles of(const Fourier& args) {
    const u64 m = args.length / 2, reals = m / 2 + 1;
    C* begin = static_cast<C*>(args.twiddles);
    Twiddles twiddles{{begin, begin + reals}, {}};
    begin += 2 * reals;
    for (u32 j = 0; j < 3; ++j, begin += 2 * (m / 4)) twiddles.quarter[j] = {begin, begin + m / 4};
    return twiddles;
  }
};

// A quarter of the circle in f64, as products of one of few sines and one of even fewer; the rest by symmetry.
template <class C> DEV void fill_twiddles(const Fourier& args) {
  constexpr u64 LOW = 64;
  const Twiddles<C> twiddles = Twiddles<C>::of(args);
  const u64 m = args.length / 2;
  const f64 angle = -6.283185307179586 / f64(args.length);
  const auto turn = [angle](u64 k) { return Complex<f64>{cos(angle * f64(k)), sin(angle * f64(k))}; };
  SHARED(Complex<f64>, low, LOW);
  share(least(LOW, m / 2 + 1), [&](u64 k) { low[k] = turn(k); });
  share(m / 2 / LOW + 1, [&](u64 some) {
    const u64 begin = some * LOW;
    const Complex<f64> high = turn(begin);
    for (u64 k = begin; k < least(begin + LOW, m / 2 + 1); ++k) {
      const Complex<f64> w = high * low[k - begin];
      put(twiddles.real, k, {C(w.re), C(w.im)});
    }
  });
  for (u32 j = 1; j <= 3; ++j) {
    share(m / 4, [&](u64 p) {
      const u64 k = 2 * j * p, quarters = k / (m / 2);
      Complex<C> w = at(twiddles.real, k % (m / 2));
      for (u64 q = 0; q < quarters; ++q) w = conjugate(times_i(conjugate(w)));  // -i w
      put(twiddles.quarter[j - 1], p, w);
    });
  }
}

// Four numbers a quarter apart, transformed and turned.
template <class C>
DEV void butterfly(const Parts<C>& to, u64 out, u64 step, const Parts<C>& from, u64 in, u64 quarter, const Complex<C>* w) {
  const Complex<C> a = at(from, in), b = at(from, in + quarter), c = at(from, in + 2 * quarter);
  const Complex<C> d = at(from, in + 3 * quarter), turned = times_i(b - d);
  put(to, out, (a + c) + (b + d));
  put(to, out + step, w[0] * ((a - c) - turned));
  put(to, out + 2 * step, w[1] * ((a + c) - (b + d)));
  put(to, out + 3 * step, w[2] * ((a - c) + turned));
}

// One stage: `m / (4 s)` groups of `s` butterflies that turn alike.
template <class C> DEV void stage(const Parts<C>& to, const Parts<C>& from, u64 m, u64 s, const Twiddles<C>& twiddles) {
  const Parts<C>* quarter = twiddles.quarter;
  const u64 groups = m / 4 / s;
#if SIMT_DEVICE
  share(m / 4, [&](u64 i) {
    const u64 q = i & (s - 1), turned = i - q;
    const Complex<C> w[3] = {at(quarter[0], turned), at(quarter[1], turned), at(quarter[2], turned)};
    butterfly(to, 4 * turned + q, s, from, i, m / 4, w);
  });
#else
  if (s == 1) {
    INDEPENDENT for (u64 p = 0; p < groups; ++p) {
      const Complex<C> w[3] = {at(quarter[0], p), at(quarter[1], p), at(quarter[2], p)};
      butterfly(to, 4 * p, 1, from, p, m / 4, w);
    }
    return;
  }
  for (u64 p = 0; p < groups; ++p) {
    const Complex<C> w[3] = {at(quarter[0], p * s), at(quarter[1], p * s), at(quarter[2], p * s)};
    if (s == 4) {
      INDEPENDENT for (u64 q = 0; q < 4; ++q) butterfly(to, 16 * p + q, 4, from, 4 * p + q, m / 4, w);
    } else {
      INDEPENDENT for (u64 q = 0; q < s; ++q) butterfly(to, 4 * s * p + q, s, from, s * p + q, m / 4, w);
    }
  }
#endif
}

// The transform of `z`, in `z` or in `other`; whichever it is, is returned.
template <class C> DEV Parts<C> transform(Parts<C> z, Parts<C> other, u64 m, const Twiddles<C>& twiddles) {
  u64 s = 1;
  for (; 4 * s <= m; s *= 4) {
    stage(other, z, m, s, twiddles);
    const Parts<C> made = other;
    other = z, z = made;
  }
  if (s == m) return z;
  share(s, [&](u64 q) {  // m = 2 s: a last stage of radix 2
    const Complex<C> a = at(z, q), b = at(z, q + s);
    put(other, q, a + b), put(other, q + s, a - b);
  });
  return other;
}

// Calls `body(offsets, buffers)` for each row of the block.
template <class C, class Body> DEV void for_rows(const Fourier& args, Body body) {
  const u64 m = args.length / 2;
  C* buffer = static_cast<C*>(args.buffers) + blockIdx.x * 4 * m;
  const Parts<C> buffers[2] = {{buffer, buffer + m}, {buffer + 2 * m, buffer + 3 * m}};
  for_team_rows<3>(args.space, block_range(args.space.count, args.chunk),
                   [&](const i64* offsets) { body(offsets, buffers); });
}

template <class T> DEV void forward(const Fourier& args) {
  typedef Compute<T> C;
  const Twiddles<C> twiddles = Twiddles<C>::of(args);
  const u64 m = args.length / 2, given = args.given;
  const i64 step = args.step_x[0];
  for_rows<C>(args, [&](const i64* offsets, const Parts<C>* buffers) {
    const T* x = static_cast<const T*>(args.x[0]) + offsets[0];
    T* re = static_cast<T*>(args.out[0]) + offsets[2];
    T* im = static_cast<T*>(args.out[1]) + offsets[2];
    const auto load = [=](u64 k) { return k < given ? widen(x[i64(k) * step]) : C(0); };
    const auto store = [=](u64 k, Complex<C> value) {
      re[i64(k) * args.step_out] = narrow<T>(value.re), im[i64(k) * args.step_out] = narrow<T>(value.im);
    };
    if (m == 0) return share(1, [&](u64) { store(0, {load(0), C(0)}); });
    const Parts<C> packed = buffers[0];
    if (step == 1 && given >= args.length) {
      share(m, [&](u64 k) { put(packed, k, {widen(x[2 * k]), widen(x[2 * k + 1])}); });
    } else {
      share(m, [&](u64 k) { put(packed, k, {load(2 * k), load(2 * k + 1)}); });
    }
    const Parts<C> z = transform(packed, buffers[1], m, twiddles);
    share(1, [&](u64) {
      store(0, {z.re[0] + z.im[0], C(0)});
      store(m, {z.re[0] - z.im[0], C(0)});
    });
    // The transforms of the even and of the odd elements, whose spectra repeat, give k and m - k.
    const auto join = [=](u64 k, i64 step_out) {
      const Complex<C> a = at(z, k), b = conjugate(at(z, m - k));
      const Complex<C> even = half(a + b), odd = at(twiddles.real, k) * half(conjugate(times_i(conjugate(a - b))));
      const Complex<C> sum = even + odd, rest = conjugate(even - odd);
      re[i64(k) * step_out] = narrow<T>(sum.re), im[i64(k) * step_out] = narrow<T>(sum.im);
      re[i64(m - k) * step_out] = narrow<T>(rest.re), im[i64(m - k) * step_out] = narrow<T>(rest.im);
    };
    if (args.step_out == 1) {
      share(m / 2, [&](u64 k) { join(k + 1, 1); });
    } else {
      share(m / 2, [&](u64 k) { join(k + 1, args.step_out); });
    }
  });
}

// The inverse is the forward transform with real and imaginary parts exchanged, before and after, over the length.
template <class T> DEV void inverse(const Fourier& args) {
  typedef Compute<T> C;
  const Twiddles<C> twiddles = Twiddles<C>::of(args);
  const u64 m = args.length / 2, given = args.given;
  const i64 step_re = args.step_x[0], step_im = args.step_x[1], step_out = args.step_out;
  for_rows<C>(args, [&](const i64* offsets, const Parts<C>* buffers) {
    const T* re = static_cast<const T*>(args.x[0]) + offsets[0];
    const T* im = static_cast<const T*>(args.x[1]) + offsets[1];
    T* out = static_cast<T*>(args.out[0]) + offsets[2];
    const auto load = [=](u64 k) {
      if (k >= given) return Complex<C>{C(0), C(0)};
      return Complex<C>{widen(re[i64(k) * step_re]), widen(im[i64(k) * step_im])};
    };
    if (m == 0) return share(1, [&](u64) { out[0] = narrow<T>(load(0).re); });
    const Parts<C> packed = buffers[0];
    const C scale = C(0.5) / C(m);
    share(1, [&](u64) {
      const C first = load(0).re, last = load(m).re;  // their imaginary parts are zero by symmetry
      put(packed, 0, {scale * (first - last), scale * (first + last)});
    });
    const auto split = [=](u64 k, Complex<C> a, Complex<C> b) {
      const Complex<C> even = a + b, odd = times_i((a - b) * conjugate(at(twiddles.real, k)));
      const Complex<C> sum = even + odd, rest = conjugate(even - odd);
      put(packed, k, {scale * sum.im, scale * sum.re});
      put(packed, m - k, {scale * rest.im, scale * rest.re});
    };
    if (step_re == 1 && step_im == 1 && given > m) {
      share(m / 2, [&](u64 n) {
        const u64 k = n + 1;
        split(k, {widen(re[k]), widen(im[k])}, {widen(re[m - k]), -widen(im[m - k])});
      });
    } else {
      share(m / 2, [&](u64 n) { split(n + 1, load(n + 1), conjugate(load(m - n - 1))); });
    }
    const Parts<C> z = transform(packed, buffers[1], m, twiddles);
    if (step_out == 1) {
      share(m, [&](u64 k) { out[2 * k] = narrow<T>(z.im[k]), out[2 * k + 1] = narrow<T>(z.re[k]); });
    } else {
      share(m, [&](u64 k) {
        out[i64(2 * k) * step_out] = narrow<T>(z.im[k]);
        out[i64(2 * k + 1) * step_out] = narrow<T>(z.re[k]);
      });
    }
  });
}
}  // namespace

#define FFT(T, ...)                                           \
  TEAM_KERNEL(fft_##T, Fourier) { forward<T>(args); }               \
  TEAM_KERNEL(fft_inverse_##T, Fourier) { inverse<T>(args); }       \
  TEAM_KERNEL(fft_twiddles_##T, Fourier) { fill_twiddles<Compute<T>>(args); }
FOR_FLOATS(FFT, )

EXPORT_TABLE(fft)
