// What the colours of the grid mean.

export function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      <li>
        <i class="swatch complete" /> shown
      </li>
      <li>
        <i class="swatch replaced" /> excerpt
      </li>
      <li>
        <i class="swatch omitted" /> omitted
      </li>
      <li>
        <i class="swatch used" /> used
      </li>
      <li title="The model used a value of the result while the result was omitted">
        <i class="swatch missed" /> used while omitted
      </li>
    </ul>
  );
}
