package main

import (
	"context"
	"errors"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/otelhook"
)

func observedScenario() bench.Scenario {
	const off, cpu = "nobody looks", "client CPU s/100k"
	compared := []bench.Comparison{{Heading: "of off", Base: off}, {Heading: "CPU of off", Base: off, Figure: cpu}}
	sc := bench.Scenario{
		Name: "observed", Rate: "msg/s",
		About: "the drain without keys, watched by metrics and by traces, which are recorded and go nowhere",
	}
	for _, c := range []struct {
		name    string
		watched func() (*watching, error)
		compare []bench.Comparison
	}{
		{off, func() (*watching, error) { return &watching{}, nil }, nil},
		{"metrics", watch(nil), compared},
		{"metrics, 1 trace in 100", watch(sdktrace.TraceIDRatioBased(0.01)), compared},
		{"metrics, every trace", watch(sdktrace.AlwaysSample()), compared},
	} {
		sc.Cases = append(sc.Cases, bench.Case{Name: c.name, Compare: c.compare, Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
			w, err := c.watched()
			if err != nil {
				return bench.Sample{}, err
			}
			s, err := b.Drain(ctx, bench.Drain{Backlog: bench.Backlog{Rows: b.Rows}, Hooks: w.hooks})
			return s, errors.Join(err, w.stop(ctx))
		}})
	}
	return sc
}

// watching is what looks during a run.
type watching struct {
	hooks outbox.Hooks
	ends  []func(context.Context) error
}

func (w *watching) stop(ctx context.Context) (err error) {
	for _, end := range w.ends {
		err = errors.Join(err, end(ctx))
	}
	return err
}

// watch makes instruments, and spans if there is a sampler.
func watch(sampler sdktrace.Sampler) func() (*watching, error) {
	return func() (*watching, error) {
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		w := &watching{ends: []func(context.Context) error{meters.Shutdown}}
		cfg := &otelhook.Config{MeterProvider: meters}
		if sampler != nil {
			tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sampler)), sdktrace.WithBatcher(nowhere{}))
			cfg.TracerProvider = tracers
			w.ends = append(w.ends, tracers.Shutdown)
		}
		observer, err := otelhook.New(cfg)
		if err != nil {
			return nil, errors.Join(err, w.stop(context.Background()))
		}
		w.hooks = observer.Hooks()
		return w, nil
	}
}

// nowhere is where spans go.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }
