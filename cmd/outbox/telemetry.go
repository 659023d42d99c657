package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/otelhook"
)

// flushLimit is how long a stopping program may take to export what it has recorded.
const flushLimit = 5 * time.Second

// telemetry is what a relay is observed by. Without anybody to look it has no hooks, and costs nothing.
type telemetry struct {
	hooks    outbox.Hooks
	listener net.Listener         // nil: nobody scrapes
	registry *prometheus.Registry // the same
	server   *adminServer
	ends     []func(context.Context) error
}

// observe makes what a relay is observed by. One that ends by itself is not there to be asked.
func (a *app) observe(ctx context.Context, c *config, log *slog.Logger, once bool) (*telemetry, error) {
	t := &telemetry{}
	if !once {
		var err error
		if t.listener, err = c.listenAdmin(ctx, log); err != nil {
			return nil, err
		}
	}
	if err := t.start(ctx, c, log); err != nil {
		return nil, &failure{exitUsage, errors.Join(err, t.stop(ctx))}
	}
	return t, nil
}

// serve begins to answer.
func (t *telemetry) serve(relay *outbox.Relay, c *config, log *slog.Logger) {
	if t.listener == nil {
		return
	}
	var names []string
	for _, d := range c.targets() {
		names = append(names, d.name)
	}
	t.server = serveAdmin(t.listener, adminMux(relay, metricsHandler(t.registry, names), newStatuszAbout(c)), log)
}

// exports reports whether OpenTelemetry's environment names where to send a signal, TRACES or METRICS.
func exports(signal string) bool {
	exporter := os.Getenv("OTEL_" + signal + "_EXPORTER")
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || exporter == "none":
		return false
	case exporter != "":
		return true
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// start makes the instruments for whoever scrapes, and for what the standard variables of OpenTelemetry name.
func (t *telemetry) start(ctx context.Context, c *config, log *slog.Logger) error {
	if t.listener == nil && !exports("METRICS") && !exports("TRACES") {
		return nil
	}
	otel.SetErrorHandler(&exportErrors{log: log})
	about, err := aboutProgram(ctx)
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	cfg := &otelhook.Config{Systems: c.systems()}
	if err := errors.Join(t.measure(ctx, cfg, about), t.trace(ctx, cfg, about)); err != nil {
		return err
	}
	observer, err := otelhook.New(cfg)
	if err != nil {
		return err
	}
	t.hooks = observer.Hooks()
	return nil
}

// aboutProgram is what is exported of the program itself. Relays that share a name are told apart by the instance, which is
// what outbox relays lists; without it a collector takes their counters for one.
func aboutProgram(ctx context.Context) (*resource.Resource, error) {
	host, _ := os.Hostname() // a relay without a name is still a relay
	return resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "outbox"), attribute.String("service.version", version()),
			attribute.String("service.instance.id", fmt.Sprintf("%s:%d", host, os.Getpid()))),
		resource.WithFromEnv())
}

// measure makes the provider of instruments.
func (t *telemetry) measure(ctx context.Context, cfg *otelhook.Config, about *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(about)}
	if t.listener != nil {
		t.registry = prometheus.NewRegistry()
		t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo())
		if err != nil {
			return fmt.Errorf("make the Prometheus exporter: %w", err)
		}
		options = append(options, sdkmetric.WithReader(exporter))
	}
	if exports("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("export of metrics, by the variables OTEL_…: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	if len(options) > 1 {
		provider := sdkmetric.NewMeterProvider(options...)
		cfg.MeterProvider = provider
		t.ends = append(t.ends, provider.Shutdown)
	}
	return nil
}

// trace makes the provider of spans.
func (t *telemetry) trace(ctx context.Context, cfg *otelhook.Config, about *resource.Resource) error {
	if !exports("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("export of traces, by the variables OTEL_…: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(exporter))
	cfg.TracerProvider = provider
	t.ends = append(t.ends, provider.Shutdown)
	return nil
}

// stop ends the answers and exports what is left. The context may be over.
func (t *telemetry) stop(ctx context.Context) (err error) {
	switch {
	case t.server != nil:
		t.server.stop()
	case t.listener != nil:
		err = t.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	for _, end := range t.ends {
		err = errors.Join(err, end(ctx))
	}
	return err
}

// systems are what OpenTelemetry calls the destinations' kinds.
func (c *config) systems() map[string]string {
	systems := map[string]string{}
	for _, d := range c.targets() {
		if kind, _, err := d.resolve(); err == nil {
			systems[d.name] = kind.system
		}
	}
	return systems
}

// exportErrors logs that exporting fails, at most once a minute: a collector that is away is asked every few seconds.
type exportErrors struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

func (e *exportErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); now.Sub(e.last) >= time.Minute {
		e.last = now
		e.log.Warn("telemetry could not be exported", "error", err)
	}
}
